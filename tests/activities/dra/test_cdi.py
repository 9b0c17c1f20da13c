"""Is a container with CDI devices refused when, and only when, its runtime says that it would ignore them?"""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.clients.runtime import RuntimeClient
from activities.dra.cdi import CdiOff, cdi_devices, is_cdi_off, require_cdi
from activities.dra.services import CdiServices
from proto.temporal.activities.requests import StartContainer


@pytest.mark.parametrize(
    ("config", "is_off"),
    [
        pytest.param('{"enableCDI": false}', True, id="off"),
        pytest.param('{"enableCDI": true}', False, id="on"),
        pytest.param("{}", False, id="a-runtime-that-always-has-it"),
        pytest.param("", False, id="a-runtime-that-tells-nothing"),
        pytest.param('{"enableCDI": 0}', False, id="no-answer-to-that"),
        pytest.param("[]", False, id="a-list"),
        pytest.param("[" * 100_000, False, id="deep"),
        pytest.param("{broken", False, id="broken"),
    ],
)
def test_whether_a_configuration_switches_cdi_off(config: str, is_off: bool) -> None:
    """As containerd tells it."""
    assert is_cdi_off(config) == is_off


class Runtime:
    """Says that CDI is off, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def abilities(self, *, verbose: bool) -> Any:
        """Tell its configuration."""
        assert verbose
        self.asked += 1
        return SimpleNamespace(info={"config": '{"enableCDI": false}'})


@pytest.mark.parametrize(("given", "claimed"), [(("a.test/x=1",), ()), ((), ("b.test/y=2",))])
async def test_a_container_with_cdi_devices_is_refused(given: tuple[str, ...], claimed: tuple[str, ...]) -> None:
    """Of a device plugin or of a claim; the message says what to set."""
    runtime = Runtime()
    services = cast(
        "CdiServices",
        SimpleNamespace(runtime=runtime, dynamic_resources=SimpleNamespace(cdi_devices=lambda *_: claimed)),
    )
    request = cast("StartContainer", SimpleNamespace(sandbox_spec={}, container={}))
    with pytest.raises(CdiOff, match="set enable_cdi = true and cdi_spec_dirs"):
        await cdi_devices(services, given, request)
    assert runtime.asked == 1


async def test_a_container_without_them_costs_no_question() -> None:
    """Which each start would pay."""
    runtime = Runtime()
    services = cast(
        "CdiServices", SimpleNamespace(runtime=runtime, dynamic_resources=SimpleNamespace(cdi_devices=lambda *_: ()))
    )
    request = cast("StartContainer", SimpleNamespace(sandbox_spec={}, container={}))
    assert await cdi_devices(services, (), request) == ()
    assert runtime.asked == 0
    with pytest.raises(CdiOff):
        await require_cdi(cast("RuntimeClient", runtime))
