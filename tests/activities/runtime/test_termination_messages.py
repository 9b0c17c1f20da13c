"""What does an ended container leave to be read?"""

import os
from pathlib import Path

import pytest

from activities.runtime.termination_messages import (
    MAX_BYTES,
    MAX_LOG_BYTES,
    MAX_LOG_LINES,
    _left_in,
    log_tail,
    message_mount,
    termination_message,
)
from proto.cri.v1 import api_pb2 as cri

LOG = "2026-11-21T12:00:00Z stdout F first\n2026-11-21T12:00:01Z stderr P half \n2026-11-21T12:00:01Z stderr F line\n"


def status(tmp_path: Path, said: str | None, *, policy: str = "File", code: int = 1, message: str = "") -> str:
    """Answer the message of a container that left `said` in its file and LOG in its log."""
    file, log = tmp_path / "message", tmp_path / "0.log"
    if said is not None:
        file.write_text(said)
    log.write_text(LOG)
    return termination_message(
        cri.ContainerStatus(
            exit_code=code,
            reason="Error",
            message=message,
            log_path=str(log),
            mounts=[
                cri.Mount(container_path="/etc/hosts", host_path="/etc/hosts"),
                cri.Mount(container_path="/dev/termination-log", host_path=str(file)),
            ],
            annotations={
                "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
                "io.kubernetes.container.terminationMessagePolicy": policy,
            },
        )
    )


LOGS = "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("said", "policy", "code", "message", "expected"),
    [
        pytest.param("bye\n", "File", 1, "", "bye\n", id="what-it-said"),
        pytest.param("", "File", 1, "", "", id="nothing"),
        pytest.param(None, "File", 1, "", "", id="no-file"),
        pytest.param("bye", "File", 1, "oom", "oom: bye", id="the-runtimes-word-first"),
        pytest.param("", LOGS, 1, "", "first\nhalf line\n", id="else-the-log"),
        pytest.param("bye", LOGS, 1, "", "bye", id="the-file-goes-before-the-log"),
        pytest.param("", LOGS, 0, "", "", id="the-log-of-a-success-is-nobodys-business"),
    ],
)
def test_messages(tmp_path: Path, said: str | None, policy: str, code: int, message: str, expected: str) -> None:
    """As getTerminationMessage decides."""
    assert status(tmp_path, said, policy=policy, code=code, message=message) == expected


def test_both_are_bounded(tmp_path: Path) -> None:
    """The end counts."""
    assert status(tmp_path, "x" * 10_000 + "end") == "x" * (MAX_BYTES - 3) + "end"
    global_log = "".join(f"2026-11-21T12:00:00Z stdout F {number:04}\n" for number in range(200))
    (tmp_path / "long.log").write_text(global_log)
    told = termination_message(
        cri.ContainerStatus(
            exit_code=1,
            log_path=str(tmp_path / "long.log"),
            annotations={"io.kubernetes.container.terminationMessagePolicy": LOGS},
        )
    )
    assert told.splitlines() == [f"{number:04}" for number in range(200 - MAX_LOG_LINES, 200)]
    assert len(told) < MAX_LOG_BYTES


@pytest.mark.parametrize(
    ("place", "left"),
    [
        pytest.param("pods/u/containers/web/00000000", MAX_BYTES, id="its-own-file-is-cut"),
        pytest.param("pods/u/volumes/v/file", 10_003, id="a-volume-in-its-place-is-not"),
        pytest.param("pods/u/containers/other/00000000", 10_003, id="nor-another-containers-file"),
    ],
)
def test_a_long_message_is_cut(tmp_path: Path, place: str, left: int) -> None:
    """What ended containers leave does not fill the disk; a second look reads the same."""
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text("x" * 10_000 + "end")
    ended = cri.ContainerStatus(
        mounts=[cri.Mount(container_path="/m", host_path=str(file))],
        labels={"io.kubernetes.pod.uid": "u", "io.kubernetes.container.name": "web"},
        annotations={"io.kubernetes.container.terminationMessagePath": "/m"},
    )
    first = termination_message(ended)
    assert first == "x" * (MAX_BYTES - 3) + "end"
    assert file.stat().st_size == left
    assert termination_message(ended) == first


def log_message(tmp_path: Path, log: str) -> str:
    """Answer the message of a failure that left only a log."""
    (tmp_path / "0.log").write_text(log, newline="")
    policy = {"io.kubernetes.container.terminationMessagePolicy": LOGS}
    return termination_message(cri.ContainerStatus(exit_code=1, log_path=str(tmp_path / "0.log"), annotations=policy))


@pytest.mark.parametrize(
    ("log", "message"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("T stdout F 10%\rT stdout F 20%\n", "10%\rT stdout F 20%\n", id="a-carriage-return-ends-no-line"),
        pytest.param("T stdout P:x half\nT stdout F:x  line\n", "half line\n", id="more-tags-than-one"),
        pytest.param("T stdout F first\nT std", "first\n", id="the-runtime-died-while-it-wrote"),
        pytest.param(
            "".join(f"T stdout F {n} {'x' * 15_000}\n" for n in range(9)), f"{'x' * 2047}\n", id="the-end-of-long-lines"
        ),
        pytest.param(
            f"T stdout F a {'b c ' * 16_384}\nT stdout F end\n", "end\n", id="a-line-that-was-cut-off-is-nobody-s-words"
        ),
    ],
)
def test_the_end_of_a_log(tmp_path: Path, log: str, message: str) -> None:
    """80 lines and 2 KiB at the most, without what the runtime wrote around them."""
    assert log_message(tmp_path, log) == message


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        pytest.param("/dev/termination-log", "/dev/termination-log", id="absolute"),
        pytest.param("tmp/../last-words", "/last-words", id="relative"),
        pytest.param("//last-words/", "/last-words", id="untidy"),
        pytest.param("", "", id="none"),
    ],
)
def test_where_the_file_lies(path: str, inside: str) -> None:
    """A path that is not absolute counts from the container's root."""
    assert message_mount(path) == inside


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    """Nothing of the node is told through it."""
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "message").symlink_to(tmp_path / "secret")
    assert "s3cret" not in status(tmp_path, None)


@pytest.mark.parametrize("kind", ["fifo", "hard-link"])
@pytest.mark.parametrize("place", ["message", "0.log"])
def test_only_a_plain_file_is_read(tmp_path: Path, kind: str, place: str) -> None:
    """A FIFO without a writer does not block, and no host file gets into a status through a link."""
    (tmp_path / "secret").write_text("2026-11-21T12:00:00Z stdout F secret\n")
    if kind == "fifo":
        os.mkfifo(tmp_path / place)
    else:
        (tmp_path / place).hardlink_to(tmp_path / "secret")
    said = log_tail(tmp_path / place) if place == "0.log" else _left_in(tmp_path / place)
    assert said.startswith("Error on reading termination")
    assert "left alone" in said
