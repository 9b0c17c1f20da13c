"""The Go program that decides with the kubelet's own code: built once for all checkouts, asked over pipes."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.binaries import find_go
from tests.cluster.build_cache import BuildCache, cache_root, digest
from tests.cluster.go_program import GoProgram

FOLDER: Final = Path(__file__).parent
NAME: Final = "decisions"
SOURCES: Final = frozenset({".go", ".s", ".mod", ".sum"})
LINKING: Final = "-ldflags=-s -w -checklinkname=0"
"""The linker allows linkname."""
AT_ONCE: Final = 50
"""Cases that are written before the answers are read; their answers fit into a pipe with what waits in the program."""


def find_program() -> Path:
    """Return the program, which is built first if it is missing; raises NoBinaries."""
    return GoProgram(_cache(), NAME, FOLDER, ("build", LINKING)).find()


def why_not() -> str:
    """Return why there is no program; empty if there is one, or Go to build it."""
    cache = _cache()
    if cache.lacking((NAME,)) and find_go() is None:
        return f"no {NAME} in {cache.folder}, and no Go to build it"
    return ""


class Kubelet:
    """The running program; answers cases in their order."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill() if error else self._process.communicate()
        self._process.wait()

    def answers(self, cases: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Ask all cases, then yield their answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for start in range(0, len(cases), AT_ONCE):
            some = cases[start : start + AT_ONCE]
            sent = b"".join(json.dumps(one).encode() + b"\n" for one in some)
            with _written(self._process, sent):
                for case in some:
                    line = self._process.stdout.readline()
                    if not line:
                        raise RuntimeError(f"the program ended at {json.dumps(case)}")
                    yield json.loads(line)


@contextmanager
def _written(process: "subprocess.Popen[bytes]", text: bytes) -> Iterator[None]:
    """Write beside the reading of answers: either pipe may be full while the other side waits."""
    assert process.stdin is not None
    pipe = process.stdin

    def write() -> None:
        pipe.write(text)
        pipe.flush()

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join()


def _cache() -> BuildCache:
    return BuildCache(cache_root(), NAME, digest(path for path in FOLDER.iterdir() if path.suffix in SOURCES))
