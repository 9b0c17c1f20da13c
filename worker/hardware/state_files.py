"""What an earlier process or a kubelet has left in a state file; a refusal is in the kubelet's words."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from proto.cri.runtime_container import RuntimeContainer
from worker.settings.kubelet.configuration import ConfigurationRefused

Left = Callable[[], Sequence[RuntimeContainer]]
"""Returns what the runtime says of this node's containers, if a file is lost."""
_State = TypeVar("_State")


def kept_state(manager: str, file: Path, read: Callable[[str], _State]) -> _State | None:
    """Read the file of a manager; None if there is none. Raises ConfigurationRefused for a content that `read` refuses, and OSError."""
    try:
        return read(file.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        why = f"no content of a {file.name}: not text" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigurationRefused(
            f"start {manager.lower()} manager error: could not restore state from checkpoint: {why}, please drain this node and "
            f'delete the {manager} manager checkpoint file "{file}" before restarting Kubelet{remedy(file)}'
        ) from error


def remedy(file: Path) -> str:
    """Say what a user of `tempolet up` does, to whom the kubelet's words say little."""
    return f'; a node of "tempolet up": run "tempolet down", delete {file}, and run "tempolet up" again'
