"""The archives of recorded lives: a tar of histories in Temporal's binary form, one member for each run, compressed with zstandard.

A member's name is seed and run: `0017/2`. Payloads are not encrypted; identities and stack traces are removed. An archive holds
at most a hundred seeds, so a failed test names a part of the lives and the seed.
"""

import io
import json
import tarfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zstandard
from google.protobuf.message import Message
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import History
from temporalio.client import WorkflowHistory

FOLDER: Final = Path(__file__).parent
SUFFIX: Final = ".tar.zst"
_LEVEL: Final = 19
_WINDOW: Final = 27
"""2^27 bytes, as the lives of an archive resemble each other."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run of one life."""

    seed: int
    number: int
    """Counted from 1 in the order of the life."""
    history: WorkflowHistory

    @property
    def name(self) -> str:
        """The name in test results."""
        return f"{self.seed:04d}/{self.number}"


def path_of(kind: str, behaviour: int, part: int, folder: Path = FOLDER) -> Path:
    """Return the path of an archive; kind is pod or node, part counts from 0."""
    return folder / f"{'' if kind == 'pod' else f'{kind}-'}v{behaviour}-{part:02d}{SUFFIX}"


def archives(kind: str, folder: Path = FOLDER) -> list[Path]:
    """List the archives of pods or of nodes."""
    prefix = "v" if kind == "pod" else f"{kind}-v"
    return sorted(folder.glob(f"{prefix}[0-9]*{SUFFIX}"))


def behaviour_of(path: Path) -> int:
    """Return the behaviour from an archive's name."""
    return int(path.name.removesuffix(SUFFIX).removeprefix("node-").removeprefix("v").partition("-")[0])


def write(path: Path, runs: Sequence[RecordedRun]) -> None:
    """Write an archive; raises FileExistsError, since a recorded one is never replaced."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for run in runs:
            data = History(events=run.history.events).SerializeToString(deterministic=True)
            member = tarfile.TarInfo(run.name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    settings = zstandard.ZstdCompressionParameters.from_level(_LEVEL, window_log=_WINDOW, enable_ldm=True)
    content = zstandard.ZstdCompressor(compression_params=settings).compress(packed.getvalue())
    with path.open("xb") as file:
        file.write(content)


def seeds(path: Path) -> set[int]:
    """Return the seeds in an archive, from the names of its members: no history is parsed."""
    with _opened(path) as tar:
        return {_seed_and_number(member)[0] for member in tar}


def read(path: Path, only: Container[int] | None = None) -> Iterator[RecordedRun]:
    """Read an archive's runs, all or those of some seeds, in the order of their seeds."""
    with _opened(path) as tar:
        for member in tar:
            seed, number = _seed_and_number(member)
            if only is not None and seed not in only:
                continue
            content = tar.extractfile(member)
            assert content is not None
            events = History.FromString(content.read()).events
            started = events[0].workflow_execution_started_event_attributes
            yield RecordedRun(seed, number, WorkflowHistory(started.workflow_id, events))


def _opened(path: Path) -> tarfile.TarFile:
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW)
    with path.open("rb") as file, decompressor.stream_reader(file) as plain:
        return tarfile.open(fileobj=io.BytesIO(plain.read()))


def _seed_and_number(member: tarfile.TarInfo) -> tuple[int, int]:
    seed, _, number = member.name.partition("/")
    return int(seed), int(number)


def clean(message: Message) -> None:
    """Remove stack traces and worker identities."""
    if isinstance(message, Failure):
        message.stack_trace = ""
        if message.HasField("encoded_attributes"):
            said = {**json.loads(message.encoded_attributes.data), "stack_trace": ""}
            message.encoded_attributes.data = json.dumps(said, separators=(",", ":")).encode()
    for field, value in message.ListFields():
        if field.name == "identity":
            setattr(message, field.name, "recorded")
        elif field.message_type is not None:
            for one in _messages(value):
                clean(one)


def _messages(value: object) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    if hasattr(value, "values"):
        return [one for one in value.values() if isinstance(one, Message)]
    return [one for one in value if isinstance(one, Message)]  # type: ignore[attr-defined]  # a repeated field


def as_json(run: RecordedRun) -> str:
    """Return a run in the format that `tempolet history` and the UI read."""
    return json.dumps({"workflowId": run.history.workflow_id, **json.loads(run.history.to_json())}, indent=1)
