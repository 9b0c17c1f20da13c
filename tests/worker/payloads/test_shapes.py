"""Does an encrypted value open only as the type that it was written as?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.converter import DataConverter, PayloadConverter, WorkflowSerializationContext

from proto.temporal.activities.requests import (
    ProbeContainer,
    RemoveContainer,
    RuntimeContainer,
    StartContainer,
    StopPodSandbox,
)
from proto.temporal.names import SHAPE
from proto.temporal.pod import PodKey
from proto.temporal.signals import DeletionRequested, PodListed, RuntimeChanged
from worker.payloads.receiving import ReceivingConverter
from worker.payloads.refused import PayloadRefused
from worker.payloads.sending import SendingConverter
from worker.temporal.codec import ENCRYPTED, data_converter
from worker.temporal.keys import KeyFile

KEY = PodKey("default", "web", "u1")
BOUND = WorkflowSerializationContext(namespace="tempolet", workflow_id="pod/n/default/web/u1")
START = StartContainer(KEY, "s0", 0, "sha256:x", {"name": "web"}, {})


@pytest.fixture
def converter(key_file: Path) -> DataConverter:
    """Return what the worker converts with."""
    return data_converter(KeyFile(key_file)).with_context(BOUND)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        pytest.param(START, StopPodSandbox, id="a-start-as-the-stop-of-a-sandbox"),
        pytest.param(ProbeContainer(KEY, "web", "c1", {"name": "web"}), RemoveContainer, id="a-probe-as-a-removal"),
        pytest.param(RuntimeChanged("event"), PodListed, id="a-hint-as-a-listing"),
        pytest.param(DeletionRequested("api", "x"), RuntimeContainer | None, id="a-deletion-as-an-answer"),
    ],
)
async def test_what_was_written_as_another_type_is_refused(converter: DataConverter, value: Any, hint: Any) -> None:
    """Though it has every field of the other type: the name is encrypted with the value."""
    payloads = await converter.encode([value])
    assert payloads[0].metadata["encoding"] == ENCRYPTED
    assert SHAPE not in payloads[0].metadata
    with pytest.raises(PayloadRefused, match=f"a value of type {type(value).__name__} is not a "):
        await converter.decode(payloads, [hint])


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        pytest.param(START, StartContainer, id="its-own-type"),
        pytest.param(KEY, PodKey | None, id="its-own-type-or-nothing"),
        pytest.param(None, PodKey | None, id="nothing"),
        pytest.param({"metadata": {}}, dict, id="no-dataclass"),
        pytest.param("text", str, id="text"),
    ],
)
async def test_its_own_type_opens(converter: DataConverter, value: Any, hint: Any) -> None:
    """And so does what has no dataclass."""
    assert await converter.decode(await converter.encode([value]), [hint]) == [value]


@pytest.mark.parametrize("reading", [ReceivingConverter(), SendingConverter()], ids=["worker", "poller"])
def test_both_converters_name_alike(reading: PayloadConverter) -> None:
    """The poller writes for the worker; without a hint nothing is compared."""
    [payload] = reading.to_payloads([RuntimeChanged("event")])
    assert payload.metadata[SHAPE] == b"RuntimeChanged"
    assert isinstance(reading.from_payloads([payload])[0], Mapping)


def test_a_value_of_an_earlier_release_opens() -> None:
    """It names no type."""
    converter = ReceivingConverter()
    [payload] = converter.to_payloads([RuntimeChanged("event")])
    del payload.metadata[SHAPE]
    assert converter.from_payloads([payload], [RuntimeChanged]) == [RuntimeChanged("event")]
