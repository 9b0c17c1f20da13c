"""Which cgroup driver counts, and what is refused with which words?"""

import json
from typing import Any

import pytest

from activities.machine.cgroup_names import CgroupDriver
from worker.settings.cgroups.driver import (
    DriverFacts,
    RuntimeSetting,
    chosen_driver,
    refuse_unusable,
    runtime_setting,
)
from worker.settings.kubelet.configuration import ConfigurationRefused

SYSTEMD, CGROUPFS = CgroupDriver.SYSTEMD, CgroupDriver.CGROUPFS


@pytest.mark.parametrize(
    ("key", "answer", "setting", "expected"),
    [
        pytest.param("cgroupfs", 0, None, SYSTEMD, id="the-runtime-says-systemd-against-the-key"),
        pytest.param("systemd", 1, None, CGROUPFS, id="the-runtime-says-cgroupfs-against-the-key"),
        pytest.param("systemd", 0, None, SYSTEMD, id="both-say-systemd"),
        pytest.param("systemd", None, None, SYSTEMD, id="the-runtime-cannot-tell-so-the-key-counts"),
        pytest.param("cgroupfs", None, None, CGROUPFS, id="the-runtime-cannot-tell-and-cgroupfs-is-the-default"),
        pytest.param("systemd", None, SYSTEMD, SYSTEMD, id="an-old-containerd-shows-the-same"),
        pytest.param("cgroupfs", None, CGROUPFS, CGROUPFS, id="an-old-containerd-shows-cgroupfs-too"),
    ],
)
def test_chosen(key: str, answer: int | None, setting: CgroupDriver | None, expected: CgroupDriver) -> None:
    """The runtime decides; the key counts only if it cannot tell."""
    shown = RuntimeSetting("runc", setting) if setting else None
    assert chosen_driver(DriverFacts(key, answer, shown)) is expected


@pytest.mark.parametrize(
    ("key", "answer", "setting", "words"),
    [
        pytest.param(
            "systemd",
            None,
            CGROUPFS,
            (
                "cgroupDriver: systemd, but containerd's handler runc uses cgroupfs (SystemdCgroup = false)",
                "set cgroupDriver: cgroupfs in the KubeletConfiguration",
                "SystemdCgroup = true in containerd's config.toml",
            ),
            id="kubeadms-key-and-debians-containerd",
        ),
        pytest.param(
            "cgroupfs",
            None,
            SYSTEMD,
            (
                "cgroupDriver: cgroupfs, but containerd's handler runc uses systemd (SystemdCgroup = true)",
                "set cgroupDriver: systemd in the KubeletConfiguration",
                "SystemdCgroup = false in containerd's config.toml",
            ),
            id="the-default-and-a-containerd-for-kubeadm",
        ),
        pytest.param(
            "systemd",
            7,
            None,
            ("the cgroup driver 7", "use a runtime that was tried (docs/versions.md)"),
            id="a-driver-of-the-future",
        ),
        pytest.param("systemd", -1, SYSTEMD, ("the cgroup driver -1",), id="no-driver"),
    ],
)
def test_refused(key: str, answer: int | None, setting: CgroupDriver | None, words: tuple[str, ...]) -> None:
    """It says what to change on which side."""
    shown = RuntimeSetting("runc", setting) if setting else None
    with pytest.raises(ConfigurationRefused) as caught:
        chosen_driver(DriverFacts(key, answer, shown))
    for one in words:
        assert one in str(caught.value)


@pytest.mark.parametrize(
    ("driver", "error", "others", "words"),
    [
        pytest.param(
            SYSTEMD, "systemd at /run/x: no", (), "systemd cannot be used: systemd at /run/x: no", id="no-bus"
        ),
        pytest.param(CGROUPFS, "systemd at /run/x: no", (), "", id="cgroupfs-needs-no-bus"),
        pytest.param(SYSTEMD, "", (), "", id="systemd-answers"),
        pytest.param(SYSTEMD, "", ("/kubepods/poda",), "still run, in /kubepods/poda; set", id="pods-of-the-other"),
        pytest.param(CGROUPFS, "", tuple("abcde"), "in a, b, c and 2 more;", id="many-pods-of-the-other"),
    ],
)
def test_unusable(driver: CgroupDriver, error: str, others: tuple[str, ...], words: str) -> None:
    """What the machine lacks is said before anything is made."""
    if not words:
        refuse_unusable(driver, systemd_error=error, others=others)
        return
    with pytest.raises(ConfigurationRefused, match=words.replace("/", "\\/")):
        refuse_unusable(driver, systemd_error=error, others=others)


def config(runtimes: Any, default: Any = "runc") -> dict[str, str]:
    """Return an info as containerd 1.7 has it."""
    return {"config": json.dumps({"containerd": {"defaultRuntimeName": default, "runtimes": runtimes}, "x": {}})}


def runc(options: Any) -> dict[str, Any]:
    """Return a handler of runc's."""
    return {"runtimeType": "io.containerd.runc.v2", "options": options}


KATA = {"runtimeType": "io.containerd.kata.v2", "options": {"SystemdCgroup": True}}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        pytest.param(config({"runc": runc({"SystemdCgroup": True})}), ("runc", SYSTEMD), id="set"),
        pytest.param(config({"runc": runc({"SystemdCgroup": False})}), ("runc", CGROUPFS), id="unset"),
        pytest.param(config({"runc": runc({})}), ("runc", CGROUPFS), id="missing-is-false"),
        pytest.param(config({"runc": runc(None)}), ("runc", CGROUPFS), id="no-options"),
        pytest.param(
            config({"a": runc({}), "b": runc({"SystemdCgroup": True})}, "b"), ("b", SYSTEMD), id="the-default-first"
        ),
        pytest.param(config({"kata": KATA, "b": runc({}), "a": runc({})}, "kata"), ("a", CGROUPFS), id="not-kata"),
        pytest.param(config({"kata": KATA}, "kata"), None, id="only-kata"),
        pytest.param({}, None, id="no-info"),
        pytest.param({"config": ""}, None, id="empty"),
        pytest.param({"config": "{"}, None, id="no-json"),
        pytest.param({"config": "[" * 100_000}, None, id="nested-without-end"),
        pytest.param({"config": "7"}, None, id="a-number"),
        pytest.param({"config": '{"containerd": []}'}, None, id="a-list-for-a-table"),
        pytest.param(config(["runc"]), None, id="a-list-of-runtimes"),
        pytest.param(config({"runc": "x"}), None, id="a-text-for-a-runtime"),
        pytest.param(config({"runc": runc({"SystemdCgroup": "true"})}), ("runc", CGROUPFS), id="a-text-is-not-true"),
        pytest.param(config({"x\n" * 3: runc({})}), None, id="a-handler-that-cannot-be-printed"),
        pytest.param(config({"x" * 1000: runc({})}), None, id="a-handler-without-end"),
        pytest.param({"config": json.dumps({"a": "b" * 2_000_000})}, None, id="too-long"),
    ],
)
def test_runtime_setting(info: dict[str, str], expected: tuple[str, CgroupDriver] | None) -> None:
    """The configuration that an old containerd shows; nothing in it can do harm."""
    found = runtime_setting(info)
    assert (found and (found.handler, found.driver)) == expected
