"""Is a device, a CPU or a claim ever given twice or leaked, when something dies at a call of a plugin?

Every call with every victim, before the plugin is asked and after it has answered, is `pytest -m "stress or not stress" tests/chaos/plugins`.
`make test` plays a few of them, with each victim among them, and a round of `make chaos` as many as its seed draws.
"""

import itertools
import zlib
from random import Random
from typing import Final

import pytest

from tests.chaos.plugins.plugin_node import DEVICES, VICTIMS, Plugin, PluginNode
from tests.chaos.plugins.plugin_proxy import Where
from tests.chaos.plugins.registering import register
from tests.cluster.dra.official_driver import remove_cdi_files
from tests.node.hardware.cpus import OTHERS

REGISTERING: Final = ("GetInfo", "NotifyRegistrationStatus")
REGISTER: Final = "Register"
OF_DEVICES: Final = (*REGISTERING, "GetDevicePluginOptions", "ListAndWatch")
STARTING: Final = ("GetPreferredAllocation", "Allocate", "PreStartContainer")
REJECTING: Final = ("GetPreferredAllocation", "Allocate")
"""An error of these rejects the pod for good, as with a kubelet; whoever made it makes it again."""
OF_DRIVERS: Final = (*REGISTERING, "NodePrepareResources", "NodeUnprepareResources")
CALLS: Final = (
    *(("devices", one) for one in (REGISTER, *OF_DEVICES, *STARTING)),
    *(("driver", one) for one in OF_DRIVERS),
)
IN_TESTS: Final = {
    ("devices", "ListAndWatch", "worker", Where.AFTER),
    ("devices", "Allocate", "worker", Where.AFTER),
    ("devices", "PreStartContainer", "plugin", Where.BEFORE),
    ("driver", "NodePrepareResources", "containerd", Where.AFTER),
    ("driver", "NodeUnprepareResources", "temporal", Where.AFTER),
}

DRAWN: Final = 8
"""In a round of `make chaos`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have a row for each call, victim and moment."""
    every = [(*call, victim, where) for call, victim, where in itertools.product(CALLS, VICTIMS, Where)]
    seed = metafunc.config.getoption("--chaos-seed")
    chosen = IN_TESTS if seed is None else set(Random(seed).sample(every, DRAWN))
    rows = [pytest.param(*one, id="-".join(one), marks=[] if one in chosen else pytest.mark.stress) for one in every]
    metafunc.parametrize(("kind", "call", "victim", "where"), rows)


def test_nothing_is_given_twice_or_leaked(
    node: PluginNode, kind: str, call: str, victim: str, where: Where, request: pytest.FixtureRequest
) -> None:
    """A pod has a CPU, a device and a claim, another one the other device; both settle, restart with the same, and leave nothing."""
    name = f"p{zlib.crc32(request.node.name.encode())}"
    plugin = node.devices if kind == "devices" else node.driver
    if call == REGISTER:
        register(node.node.root_dir, plugin.proxy.socket, where, lambda: node.kill(victim, plugin))
        plugin.proxy.open()  # as a plugin does when the kubelet is new, or has not answered
        node.back(victim, plugin)
        node.until_registered()
    else:
        plugin.proxy.strike_at(call, where, lambda: node.kill(victim, plugin), loses=victim == "plugin")
    if call in OF_DEVICES or call in REGISTERING:
        plugin.proxy.open()  # as a plugin that has started again
        struck(node, plugin, victim)
    node.create(name, whole=True)
    if call in STARTING or call == "NodePrepareResources":
        struck(node, plugin, victim)
    if call in REJECTING and victim == "plugin":
        name = made_again(node, name)
    node.create(f"{name}b", whole=False)
    first, second = node.node.until_running(name), node.node.until_running(f"{name}b")
    given, other = node.given(first), node.given(second)
    assert {given.device, other.device} == set(DEVICES)
    assert (given.cpus, given.claim, other.cpus) == (OTHERS, "true", "0")
    cpus, devices = node.on_disk()
    assert cpus == {first.uid: OTHERS}
    assert devices == {first.uid: [given.device], second.uid: [other.device]}
    node.node.until(lambda: node.in_ledger() == (cpus, devices), "the ledger has them")  # the worker may lead it yet

    first = node.restarted(first)
    assert node.given(first) == given

    node.delete(name, f"{name}b")
    if call == "NodeUnprepareResources":
        struck(node, plugin, victim)
        if victim == "plugin":
            remove_cdi_files(node.driver_name)  # the official one keeps in memory which files are its own
    for one in (name, f"{name}b"):
        node.node.until_pod_gone(one)
    node.node.until(lambda: not node.left(), lambda: f"nothing is left: {node.left()}")
    node.forget_claim(name)


def made_again(node: PluginNode, name: str) -> str:
    """Wait until a pod is rejected, and make another one; returns its name."""
    rejected = node.node.until_pod(name, lambda one: one.phase == "Failed", "it is rejected")
    assert rejected.reason == "UnexpectedAdmissionError"
    node.delete(name)
    node.node.until_pod_gone(name)
    node.forget_claim(name)
    node.create(f"{name}c", whole=True)
    return f"{name}c"


def struck(node: PluginNode, plugin: Plugin, victim: str) -> None:
    """Wait until the victim has died at the call, and start it again."""
    node.node.until(plugin.proxy.struck.is_set, "it has struck")
    node.back(victim, plugin)
    node.until_registered()
