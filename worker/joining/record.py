"""`/etc/tempolet/joined.json`: what join made, so that the next join knows its own files, and leave removes nothing else.

An entry is written before the file itself: after a crash between the two, the next join finds a file of its own that is missing.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final, Self

from activities.files.atomic_files import write_atomically
from worker.joining.refusal import JoinRefused

_LARGEST: Final = 1024 * 1024
_VERSION: Final = 1


@dataclass(slots=True)
class Record:
    """What was made, and for which node."""

    path: Path
    node: str = ""
    server: str = ""
    endpoint: str = ""
    namespace: str = ""
    """Temporal's."""
    files: dict[str, str] = field(default_factory=dict)
    """Path to the SHA-256 of what join wrote."""
    later: list[str] = field(default_factory=list)
    """Files that the services write."""
    folders: list[str] = field(default_factory=list)
    link: str = ""
    """What /usr/local/bin/tempolet was led to; empty: it was there."""
    found: list[str] = field(default_factory=list)
    """What was in --root-dir before the first join."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read it; an empty one without a file. Raises JoinRefused."""
        try:
            with path.open("rb") as file:
                content = json.loads(file.read(_LARGEST))
        except FileNotFoundError:
            return cls(path)
        except (OSError, ValueError) as error:
            raise JoinRefused(f"{path}: cannot be read, so what join made is not known: {error}") from error
        if not isinstance(content, dict) or content.pop("version", 0) != _VERSION:
            raise JoinRefused(f"{path}: not by this release's `tempolet join`: use that of the release that wrote it")
        names = {one.name for one in fields(cls)} - {"path"}
        return cls(path, **{name: value for name, value in content.items() if name in names})

    @property
    def is_empty(self) -> bool:
        """Report whether nothing was joined."""
        return not self.node

    def write(self) -> None:
        """Write it, 0600: it has digests of secrets. Raises OSError."""
        content = {name: value for name, value in asdict(self).items() if name != "path"} | {"version": _VERSION}
        write_atomically(self.path, json.dumps(content, indent=1).encode())

    def wrote(self, path: Path, content: bytes) -> bool:
        """Report whether this content is what join wrote there."""
        return self.files.get(str(path)) == digest(content)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
