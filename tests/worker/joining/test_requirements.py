"""Is a machine refused before anything is changed, for every reason at once, each with what to do?"""

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.certificates import Authority
from worker.daemon.config import NodeConfig
from worker.joining.refusal import JoinRefused
from worker.joining.request import Temporal
from worker.joining.requirements import (
    MachineFacts,
    machine_faults,
    refuse_taken_port,
    refuse_unready_runtime,
    refuse_unusable_temporal,
)
from worker.joining.systemd import Systemd, Unit

PROGRAM: Final = Path("/opt/tempolet/.venv/bin/tempolet")
GOOD: Final = MachineFacts(
    root=True,
    systemd=True,
    kubelet=Unit(id="kubelet.service", loaded="not-found", active="inactive"),
    program=PROGRAM,
    program_exists=True,
    link=Path("/usr/local/bin/tempolet"),
)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="a-new-machine"),
        pytest.param({"leads_to": str(PROGRAM)}, id="the-link-is-ours"),
        pytest.param(
            {"kubelet": Unit(id="kubelet.service", loaded="loaded", active="inactive", enabled="disabled")},
            id="a-kubelet-that-was-stopped",
        ),
        pytest.param({"kubelet": Unit(id="tempolet-worker.service", active="active")}, id="an-alias-of-our-own"),
    ],
)
def test_a_machine_that_can_join(given: dict[str, Any]) -> None:
    """Nothing is found wrong."""
    assert list(machine_faults(replace(GOOD, **given))) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"root": False}, "with sudo", id="no-root"),
        pytest.param({"systemd": False}, "another supervisor", id="no-systemd"),
        pytest.param({"kubelet": Unit("kubelet.service", active="active")}, "disable --now kubelet", id="a-kubelet"),
        pytest.param(
            {"kubelet": Unit("kubelet.service", active="activating")},
            "disable --now kubelet",
            id="a-kubelet-that-restarts",
        ),
        pytest.param({"program_exists": False}, "virtual environment", id="no-program"),
        pytest.param({"leads_to": "."}, "is no link", id="a-program-in-the-links-place"),
        pytest.param({"leads_to": "/opt/old/tempolet"}, "leads to /opt/old/tempolet", id="another-release"),
    ],
)
def test_a_machine_that_cannot_join(given: dict[str, Any], words: str) -> None:
    """One fault, which says what to do."""
    (fault,) = machine_faults(replace(GOOD, **given))
    assert words in fault


def test_every_fault_is_told_at_once() -> None:
    """An operator repairs them in one go."""
    assert len(list(machine_faults(replace(GOOD, root=False, systemd=False, leads_to=".")))) == 3


def systemctl(folder: Path, active: str) -> Systemd:
    """Return a systemctl for which every unit is in one state."""
    program = folder / "systemctl"
    program.write_text(f"#!/bin/sh\necho ActiveState={active}\n")
    program.chmod(0o755)
    return Systemd(str(program))


def test_a_taken_port_is_refused_unless_it_is_ours(tmp_path: Path) -> None:
    """The port is named, and how to find who has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(JoinRefused, match=f"ss -ltnp 'sport = :{port}'"):
            refuse_taken_port("127.0.0.1", port, systemctl(tmp_path, "inactive"))
        refuse_taken_port("127.0.0.1", port, systemctl(tmp_path, "active"))
    refuse_taken_port("127.0.0.1", port, systemctl(tmp_path, "inactive"))


def test_an_address_that_the_machine_lacks_is_refused(tmp_path: Path) -> None:
    """192.0.2.0/24 is nobody's."""
    with pytest.raises(JoinRefused, match="cannot be used"):
        refuse_taken_port("192.0.2.1", 10250, systemctl(tmp_path, "inactive"))


def test_a_runtime_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By its endpoint, with what to do."""
    with pytest.raises(JoinRefused, match="no such socket; start containerd"):
        refuse_unready_runtime(f"unix://{tmp_path}/none.sock")


def test_a_systemctl_that_fails_says_which_call(tmp_path: Path) -> None:
    """With what it wrote."""
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(JoinRefused, match="`systemctl daemon-reload` failed: no bus"):
        Systemd(str(program)).reload()
    with pytest.raises(JoinRefused, match="No such file"):
        Systemd(str(tmp_path / "none")).reload()


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        pytest.param(Unit(active="activating", sub="start", status="waits"), "waits", id="it-says-what-it-waits-for"),
        pytest.param(Unit(active="active", sub="running"), "active (running)", id="it-says-nothing"),
        pytest.param(
            Unit(active="activating", sub="auto-restart", status="old", restarts=5, result="exit-code"),
            "activating (auto-restart), result exit-code, restarted 5 times",
            id="it-keeps-ending",
        ),
    ],
)
def test_what_a_service_waits_for(unit: Unit, words: str) -> None:
    """Its own words, unless it keeps ending."""
    assert unit.words() == words


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        pytest.param({"authority": "other.key"}, "the server's CA certificate cannot be read", id="a-ca-that-is-none"),
        pytest.param(
            {"certificate": "one.crt", "key": "other.key"}, "is not that of its certificate", id="another-key"
        ),
        pytest.param({"certificate": "one.crt", "key": "one.crt"}, "the client's key cannot be read", id="no-key"),
    ],
)
def test_temporals_files_are_read_before_anything_is_changed(tmp_path: Path, wrong: dict[str, str], why: str) -> None:
    """As the services will read them."""
    authority = Authority.make(tmp_path)
    for name in ("one", "other"):
        authority.sign(name, name)
    good = Temporal("t:1", authority=tmp_path / "ca.crt", certificate=tmp_path / "one.crt", key=tmp_path / "one.key")
    config = NodeConfig("n")
    refuse_unusable_temporal(config, good.variables())
    given: dict[str, Any] = {name: tmp_path / file for name, file in wrong.items()}
    with pytest.raises(JoinRefused, match=f"nothing was changed: Temporal's TLS settings: .*{why}"):
        refuse_unusable_temporal(config, replace(good, **given).variables())
