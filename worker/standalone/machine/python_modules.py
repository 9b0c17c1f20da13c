"""Commands that run a module of ours in a process of its own, from an installed package or from a checkout."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ModuleCommand:
    """The beginning of a command, and the variables that it needs."""

    argv: list[str]
    environment: dict[str, str]


def module_command(module: str) -> ModuleCommand:
    """Return the command of a module; it runs from any folder, so that no folder of the operator's is kept busy."""
    ours = Path(__file__).resolve().parents[3]
    installed = ours == Path(sysconfig.get_path("purelib"))
    return ModuleCommand([sys.executable, "-m", module], {} if installed else {"PYTHONPATH": str(ours)})
