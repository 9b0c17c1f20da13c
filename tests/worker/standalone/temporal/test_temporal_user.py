"""Does Temporal run as a user of its own, with the database of an earlier release, and can that release go on with it afterwards?

The user is `nobody` here; `tests/node/standalone/test_under_systemd.py` has the one that `up` makes.
"""

import contextlib
import ctypes
import io
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from proto.temporal.names import NAMESPACE
from tests.free_ports import free_ports
from tests.open_files import open_files
from tests.unprivileged import as_nobody
from tests.worker.standalone.temporal.earlier_temporal import earlier, make_namespace, namespaces, status, temporal_pid
from worker.standalone.gateway.database_folder import FOLDER
from worker.standalone.gateway.kept_capability import CAP_BLOCK_SUSPEND
from worker.standalone.machine import programs
from worker.standalone.machine.process import wait_for_end
from worker.standalone.progress import Progress
from worker.standalone.settings import Settings
from worker.standalone.temporal_server import ROOT_USER, TemporalFailed, TemporalServer
from worker.standalone.up import user_of_temporal

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root: it makes a network, and processes of another user"
)
NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def server(node_dir: Path) -> Iterator[TemporalServer]:
    """Return a server that is not started yet, in a folder that others may pass."""
    folder = node_dir / "as-user"
    folder.mkdir(mode=0o711)
    one = TemporalServer(folder / "state", folder / "run", free_ports(1)[0], user="nobody")
    yield one
    one.stop()
    subprocess.run(["rm", "-r", folder], check=True)


def pids(server: TemporalServer) -> tuple[int, int]:
    """Return the pids of the gateway and of Temporal."""
    gateway = server.process.running()
    assert gateway
    return gateway.pid, temporal_pid(gateway.pid)


def owners(server: TemporalServer) -> set[int]:
    """Return the uids of the database's folder and files."""
    folder = server.root / FOLDER
    return {one.stat().st_uid for one in (folder, *folder.iterdir())}


def test_temporal_has_nothing_of_root(server: TemporalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ids, groups and capabilities but one, nor variables with credentials, nor a file but its own."""
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example")
    server.start()
    assert NAMESPACE in namespaces(server)
    _, pid = pids(server)
    found = status(pid)
    assert found["Uid"] == [str(NOBODY.pw_uid)] * 4
    assert found["Gid"] == [str(NOBODY.pw_gid)] * 4
    assert found["Groups"] == []
    kept = [f"{1 << CAP_BLOCK_SUSPEND:016x}"]
    assert [found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [kept] * 4
    variables = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"secret" not in variables
    assert b"GODEBUG=" in variables
    assert owners(server) == {NOBODY.pw_uid}
    assert {one for one in open_files(pid) if one.startswith(str(server.root.parent))} == {
        str(server.log_file),
        str(server.places.lock),
        *(str(one) for one in (server.root / FOLDER).iterdir()),
    }


PTRACE_SEIZE = 0x4206  # ptrace(2)


def test_another_process_of_its_uid_stays_outside(server: TemporalServer) -> None:
    """As a pod that names this uid and has the host's processes: it can end Temporal, and no more."""
    server.start()
    pid = pids(server)[1]

    def attack() -> str:
        let_in = ["attached"] if ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 else []
        for name in ("environ", "mem", "fd/0", "fd/1", "root/", "cwd/", "ns/net", "maps"):
            with contextlib.suppress(PermissionError):
                os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
                let_in.append(name)
        return " ".join(let_in) or f"outside, as {os.geteuid()}"

    with as_nobody(attack) as said:
        assert said == f"outside, as {NOBODY.pw_uid}"


def test_it_ends_with_the_gateway_and_comes_back(server: TemporalServer) -> None:
    """The kernel keeps the wish to end with the parent, although Temporal became another user's."""
    server.start()
    gateway, temporal = pids(server)
    os.kill(gateway, signal.SIGKILL)
    assert wait_for_end(gateway, 10)
    assert wait_for_end(temporal, 10)
    assert server.start()
    assert status(pids(server)[1])["Uid"][0] == str(NOBODY.pw_uid)
    assert server.stop(), "by SIGTERM, which the gateway hands on to another user's process"


def test_the_database_of_an_earlier_release_and_back(server: TemporalServer) -> None:
    """Nothing in it is lost, in either direction; what root has written since is the user's again afterwards."""
    before = earlier(server)
    with before:
        make_namespace(before, "of-the-earlier-release")
        assert not before.linked_database.is_symlink()
    with server:
        assert "of-the-earlier-release" in namespaces(server)
        make_namespace(server, "of-this-one")
        assert not server.is_root()
    with before:
        assert before.is_root()
        assert status(pids(before)[1])["Uid"][0] == "0"
        assert "of-this-one" in namespaces(before)
        make_namespace(before, "of-the-earlier-one-again")
    with server:
        assert "of-the-earlier-one-again" in namespaces(server)
        assert owners(server) == {NOBODY.pw_uid}


def test_a_killed_temporal_of_root_leaves_its_log_to_the_user(server: TemporalServer) -> None:
    """The last commits are in SQLite's log alone."""
    before = earlier(server)
    before.start()
    make_namespace(before, "just-made")
    gateway, _ = pids(before)
    os.kill(gateway, signal.SIGKILL)
    assert wait_for_end(gateway, 10)
    with server:
        assert "just-made" in namespaces(server)


def test_a_user_that_is_gone_is_told(server: TemporalServer) -> None:
    """Root does not take its place."""
    server.user = "no-such-user"
    with pytest.raises(TemporalFailed, match="user no-such-user is not there any more"):
        server.start()


def test_a_link_in_the_users_folder_is_not_followed(server: TemporalServer) -> None:
    """As somebody may leave it who had taken Temporal over; the message names it."""
    with server:
        pass
    shadow = server.root.parent / "shadow"
    shadow.write_text("root's")
    server.database.unlink()
    server.database.symlink_to(shadow)
    os.chown(server.database.parent, 0, 0)
    with pytest.raises(TemporalFailed, match=r"temporal/temporal\.db is a link"):
        server.start()
    assert shadow.stat().st_uid == 0


def test_a_machine_that_makes_no_user_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal runs as root there, as before."""
    node = Settings(state_dir=tmp_path / "state", run_dir=tmp_path / "run", systemd=True)
    node.state_dir.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "SYSTEM_DIRECTORIES", ())
    output = io.StringIO()
    assert user_of_temporal(node, Progress(Console(file=output))) == ROOT_USER
    why = f"user {node.temporal_user.name} cannot be made: systemd-sysusers is not there"
    assert output.getvalue() == f"warning: Temporal runs as root: {why}\n"
    assert list(node.state_dir.iterdir()) == []
