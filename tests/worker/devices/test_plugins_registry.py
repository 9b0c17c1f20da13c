"""Do device plugins register by a socket in plugins_registry, too?"""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from activities.clients.plugins.kinds import PluginRefused
from proto.pluginregistration.v1 import api_pb2 as registration
from tests.worker.devices.lying_plugin import Faults, devices, serving
from worker.devices.plugins import DevicePlugins
from worker.devices.plugins_registry import DEVICE_PLUGIN, DevicePluginKind

GPU = "example.com/gpu"


async def test_a_plugin_is_used_until_its_registration_is_gone(tmp_path: Path) -> None:
    """Its devices are listed, and unhealthy when the socket in the registry is removed; a later plugin is not affected."""
    changed = asyncio.Event()
    plugins = DevicePlugins(changed.set)
    async with (
        serving(tmp_path / "p", Faults(lists=[devices("a")])),
        serving(tmp_path / "q", Faults(lists=[devices("b")])),
    ):
        info = registration.PluginInfo(type=DEVICE_PLUGIN, name=GPU, supported_versions=["v1", "v1beta1"])
        first = await DevicePluginKind(plugins).register(info, str(tmp_path / "p"))
        assert (first.kind, first.name, first.version) == (DEVICE_PLUGIN, GPU, "v1beta1")
        assert await plugins.is_registered(GPU, timedelta(seconds=10))
        second = await DevicePluginKind(plugins).register(info, str(tmp_path / "q"))
        first.remove()
        async with asyncio.timeout(20):
            while plugins.inventory[GPU].healthy != {"b"}:
                changed.clear()
                await changed.wait()
            second.remove()
            while plugins.inventory[GPU].healthy:
                changed.clear()
                await changed.wait()
    await plugins.close()


@pytest.mark.parametrize(
    ("info", "words"),
    [
        pytest.param(
            registration.PluginInfo(name=GPU, supported_versions=["v1", "v2"]),
            "plugin validation failed with err: manager version, v1beta1, is not among plugin supported versions [v1 v2]",
            id="versions",
        ),
        pytest.param(
            registration.PluginInfo(name="cpu", supported_versions=["v1beta1"]),
            'plugin validation failed with err: invalid name of device plugin socket: the ResourceName "cpu" is invalid',
            id="name",
        ),
        pytest.param(
            registration.PluginInfo(name=GPU, supported_versions=["v1beta1"]),
            "plugin registration failed with err: failed to dial device plugin: context deadline exceeded",
            id="nobody-listens",
        ),
    ],
)
async def test_a_plugin_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, info: registration.PluginInfo, words: str
) -> None:
    """It is told in the kubelet's words."""
    monkeypatch.setattr("activities.clients.device_plugins.device_plugin.CONNECT_SECONDS", 0.5)
    plugins = DevicePlugins(lambda: None)
    with pytest.raises(PluginRefused) as refused:
        await DevicePluginKind(plugins).register(info, str(tmp_path / "nobody"))
    assert str(refused.value) == f"RegisterPlugin error -- {words}"
    assert not plugins.inventory
