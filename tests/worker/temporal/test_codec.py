"""Can a payload be decrypted for its own workflow only, and is any other refused with a reason?"""

from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import ActivitySerializationContext, DataConverter, WorkflowSerializationContext

from worker.payloads.refused import REFUSED, PayloadRefused
from worker.temporal.codec import ENCRYPTED, CodecUnbound, data_converter
from worker.temporal.keys import KeyFile, KeyMissing, add_key, create_key_file

CANARY = "xyzzy-canary-9f4e"
WORKFLOW_ID = "pod/node-1/default/hello/0123456789abcdef"
BOUND = WorkflowSerializationContext(namespace="tempolet", workflow_id=WORKFLOW_ID)


@pytest.fixture
def converter(key_file: Path) -> DataConverter:
    """Make a converter with the key file of the test, bound to no workflow yet."""
    return data_converter(KeyFile(key_file))


def text_of(path: Path) -> str:
    """Read a key file."""
    return path.read_text()


def rewrite(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a key file as an operator does."""
    path.write_text(text)
    path.chmod(mode)


async def encrypted(converter: DataConverter, value: Any = CANARY) -> Payload:
    """PayloadCipher one value for WORKFLOW_ID."""
    [payload] = await converter.with_context(BOUND).encode([value])
    return payload


async def opened(converter: DataConverter, payload: Payload, workflow_id: str = WORKFLOW_ID) -> Any:
    """Open one payload as a client of that workflow would."""
    context = WorkflowSerializationContext(namespace="tempolet", workflow_id=workflow_id)
    [value] = await converter.with_context(context).decode([payload])
    return value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="nothing"),
        pytest.param("pull busybox:1", id="a-summary"),
        pytest.param(b"\0\1", id="bytes"),
        pytest.param({"spec": {"containers": [{"name": "é"}]}}, id="a-pod"),
        pytest.param(["x" * 1_000_000], id="a-megabyte"),
    ],
)
async def test_what_is_sealed_opens_again(converter: DataConverter, value: Any) -> None:
    """Every kind of value is restored."""
    assert await opened(converter, await encrypted(converter, value)) == value


async def test_a_payload_is_sealed_and_short(converter: DataConverter) -> None:
    """A short value costs its metadata, a zstd frame, 12 bytes of nonce and 16 of tag."""
    payload = await encrypted(converter)
    assert payload.metadata["encoding"] == ENCRYPTED
    assert CANARY.encode() not in payload.SerializeToString()
    assert payload.ByteSize() <= len(CANARY) + len(WORKFLOW_ID) + 130


def activity_context(activity_id: str, *, is_local: bool = False) -> ActivitySerializationContext:
    """Build the context of an activity of WORKFLOW_ID."""
    return ActivitySerializationContext(
        namespace="tempolet",
        workflow_id=WORKFLOW_ID,
        workflow_type="PodWorkflow",
        activity_id=activity_id,
        activity_type="PullImage",
        activity_task_queue="node/node-1",
        is_local=is_local,
    )


PULL = activity_context("image/1")


@pytest.mark.parametrize(
    ("written_for", "opened_by"),
    [
        pytest.param(PULL, PULL, id="an-activity's-own"),
        pytest.param(BOUND, PULL, id="the-request-of-an-earlier-release"),
        pytest.param(activity_context("1", is_local=True), activity_context("2", is_local=True), id="local-activities"),
    ],
)
async def test_an_activity_opens_what_is_its_own(converter: DataConverter, written_for: Any, opened_by: Any) -> None:
    """Workflow and activity bind alike; a local activity has no id that both sides know."""
    payloads = await converter.with_context(written_for).encode([CANARY])
    assert await converter.with_context(opened_by).decode(payloads) == [CANARY]


@pytest.mark.parametrize(
    "opened_by",
    [
        pytest.param(activity_context("container/web"), id="another-activity"),
        pytest.param(BOUND, id="the-workflow-as-a-signal"),
    ],
)
async def test_what_belongs_to_an_activity_opens_nowhere_else(converter: DataConverter, opened_by: Any) -> None:
    """The name is encrypted with the value, so it cannot be changed; who only shows a history asks for none."""
    payloads = await converter.with_context(PULL).encode([CANARY])
    with pytest.raises(PayloadRefused, match="belongs to its activity image/1"):
        await converter.with_context(opened_by).decode(payloads)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda p: Payload(metadata=p.metadata, data=p.data[:-1] + b"\0"), "altered", id="a-bit-turned"),
        pytest.param(lambda p: Payload(metadata=p.metadata, data=p.data[:10]), "altered", id="cut-short"),
        pytest.param(lambda p: Payload(metadata=p.metadata, data=b""), "altered", id="empty"),
        pytest.param(
            lambda p: Payload(metadata={**p.metadata, "w": b"pod/other"}, data=p.data),
            "pod/other",
            id="another-id-named",
        ),
        pytest.param(
            lambda _: Payload(metadata={"encoding": b"json/plain"}, data=b'"hi"'), "not encrypted", id="not-encrypted"
        ),
        pytest.param(
            lambda p: Payload(metadata={"encoding": ENCRYPTED}, data=p.data), "not encrypted", id="metadata-taken-away"
        ),
        pytest.param(
            lambda _: Payload(metadata={"encoding": REFUSED}, data=b"forged"), "not encrypted", id="a-forged-refusal"
        ),
    ],
)
async def test_what_is_not_ours_is_refused_with_its_reason(converter: DataConverter, change: Any, reason: str) -> None:
    """The refusal says why and names the workflow."""
    payload = change(await encrypted(converter))
    with pytest.raises(PayloadRefused, match=reason):
        await opened(converter, payload)


@pytest.mark.parametrize(
    ("namespace", "workflow_id", "reason"),
    [
        pytest.param("tempolet", "pod/node-1/default/other/1", "belongs to workflow", id="another-workflow"),
        pytest.param("default", WORKFLOW_ID, "another namespace", id="another-namespace"),
    ],
)
async def test_a_payload_of_elsewhere_is_refused(
    converter: DataConverter, namespace: str, workflow_id: str, reason: str
) -> None:
    """A payload copied into another workflow or namespace does not open there."""
    context = WorkflowSerializationContext(namespace=namespace, workflow_id=workflow_id)
    with pytest.raises(PayloadRefused, match=reason):
        await converter.with_context(context).decode([await encrypted(converter)])


async def test_a_renamed_payload_of_another_workflow_is_refused(converter: DataConverter) -> None:
    """The id in the metadata is only a hint: the encryption itself is bound to the workflow."""
    other = "pod/node-1/default/other/1"
    payload = await encrypted(converter)
    renamed = Payload(metadata={**payload.metadata, "w": other.encode()}, data=payload.data)
    with pytest.raises(PayloadRefused, match="altered"):
        await opened(converter, renamed, other)


async def test_no_workflow_no_seal(converter: DataConverter) -> None:
    """A payload that belongs to no workflow is neither encrypted nor opened."""
    with pytest.raises(CodecUnbound, match="activity_of"):
        await converter.encode([CANARY])
    with pytest.raises(CodecUnbound):
        await converter.decode([await encrypted(converter)])


async def test_an_old_key_still_opens_and_the_newest_seals(key_file: Path) -> None:
    """After a rotation, old payloads open and new ones name the new key."""
    before = await encrypted(data_converter(KeyFile(key_file)))
    ring = add_key(key_file)
    converter = data_converter(KeyFile(key_file))
    assert await opened(converter, before) == CANARY
    assert (await encrypted(converter)).metadata["k"].decode() == ring.newest.key_id != before.metadata["k"].decode()


async def test_a_key_added_while_we_run_is_found(converter: DataConverter, key_file: Path) -> None:
    """The file is read again when a payload names a key that was not there at the start."""
    add_key(key_file)
    payload = await encrypted(data_converter(KeyFile(key_file)))
    assert await opened(converter, payload) == CANARY


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("", "not an active one", id="unknown"),
        pytest.param("{id} retired\n", "not an active one", id="retired"),
    ],
)
async def test_what_another_key_encrypted_is_refused(
    converter: DataConverter, key_file: Path, tmp_path: Path, line: str, reason: str
) -> None:
    """The codec does not raise: one message of a stranger would fail the workflow task at every retry."""
    elsewhere = tmp_path / "elsewhere"
    key_id = create_key_file(elsewhere).newest.key_id
    payload = await encrypted(data_converter(KeyFile(elsewhere)))
    rewrite(key_file, text_of(key_file) + line.format(id=key_id))
    [replaced] = await converter.with_context(BOUND).payload_codec.decode([payload])  # type: ignore[union-attr]  # it has a codec
    assert replaced.metadata["encoding"] == REFUSED
    assert key_id in replaced.data.decode()
    assert reason in replaced.data.decode()


@pytest.mark.parametrize(
    "left",
    [pytest.param("{id}\n", id="the-id-without-its-secret"), pytest.param("", id="the-whole-line-is-gone")],
)
async def test_the_missing_secret_of_an_active_key_drops_nothing(key_file: Path, left: str) -> None:
    """It is told, and raises out of the codec, until the line is put back or the key is retired."""
    before = text_of(key_file)
    ring = add_key(key_file)
    payload = await encrypted(data_converter(KeyFile(key_file)))
    whole = text_of(key_file)
    rewrite(key_file, before + left.format(id=ring.newest.key_id))
    told: list[str] = []
    keys = KeyFile(key_file, missing=told.append)
    converter = data_converter(keys)
    with pytest.raises(KeyMissing, match=f"lacks the secret of key {ring.newest.key_id}"):
        await opened(converter, payload)
    assert told == [keys.lack]
    rewrite(key_file, before + f"{ring.newest.key_id} retired\n")
    with pytest.raises(PayloadRefused):
        await opened(converter, payload)
    rewrite(key_file, whole)
    assert await opened(converter, payload) == CANARY
    assert not keys.lack


async def test_a_key_file_that_became_unreadable_drops_nothing(key_file: Path, tmp_path: Path) -> None:
    """Whether an id is active cannot be said then."""
    converter = data_converter(KeyFile(key_file))
    create_key_file(tmp_path / "elsewhere")
    payload = await encrypted(data_converter(KeyFile(tmp_path / "elsewhere")))
    rewrite(key_file, "# nothing\n", mode=0o644)
    with pytest.raises(KeyMissing, match="chmod 0600"):
        await opened(converter, payload)


async def test_a_refusal_repeats_little_of_what_a_stranger_wrote(converter: DataConverter) -> None:
    """It is sent to those who ask, and stands in replayed memory."""
    names = {"encoding": ENCRYPTED, "k": b"x" * 100_000, "w": WORKFLOW_ID.encode()}
    for metadata in (names, {**names, "w": b"x" * 100_000}):
        with pytest.raises(PayloadRefused) as refused:
            await opened(converter, Payload(metadata=metadata, data=b"x" * 40))
        assert len(str(refused.value)) < 600


async def test_copies_are_kept_for_the_workflows_met_last(
    converter: DataConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for a workflow and one for each activity, never one for two, and not without end."""
    monkeypatch.setattr("worker.temporal.codec._MOST_COPIES", 2)
    mine = converter.with_context(BOUND)
    assert converter.with_context(BOUND) is mine
    assert converter.with_context(PULL) is not mine
    payload = await encrypted(converter)
    for number in range(5):
        with pytest.raises(PayloadRefused, match="belongs to workflow"):
            await opened(converter, payload, f"{WORKFLOW_ID}-{number}")
    assert converter.with_context(BOUND) is not mine
    assert await opened(converter, payload) == CANARY
