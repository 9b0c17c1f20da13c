"""Runs commands as an operator of the node under test.

The commands run in the test's own process: starting Python and importing Temporal for each took a second of CPU time.
`tests/worker/commands/test_cli.py` starts them as programs.
"""

import contextlib
import io
import os
import time
from collections.abc import Iterator

from proto.pod_snapshot import PodSnapshot
from tests.node.tempolet_node import TempoletNode
from worker.cli import run


def tempolet(node: TempoletNode, command: str, *words: str) -> tuple[int, str]:
    """Run a command as an operator of this node; returns the exit code and the output, stdout and stderr together."""
    options = ["--tempolet-config", str(node.directory / "tempolet.json"), "--root-dir", str(node.root_dir)]
    out, err = _text(), _text()
    with _operators_environment(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([command, *options, "--hostname-override", node.name, *words])
    return code, _written(out) + _written(err)


def history(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Return the output of `tempolet history` for a pod."""
    code, said = tempolet(node, "history", f"{snapshot.namespace}/{snapshot.name}")
    assert code == 0, said
    return said


def _text() -> io.TextIOWrapper:
    """Give a text stream over bytes, as stdout is: `tempolet logs` writes bytes."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _operators_environment() -> Iterator[None]:
    """Unset the variables that name another Temporal while the block runs, and set the time zone to UTC."""
    before = dict(os.environ)
    os.environ.update({"TZ": "UTC"})
    for key in before:
        if key.startswith("TEMPORAL_"):
            del os.environ[key]
    time.tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
