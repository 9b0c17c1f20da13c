"""The options that select a node, and loading that node's configuration.

The options are the kubelet's. Without any of them the node started by `tempolet up` is used.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.commands.access.exits import CommandFailed, Exit
from worker.daemon.config import NodeConfig, load_node_config
from worker.settings.flags import Flags

RootDir = Annotated[
    Path | None,
    typer.Option(
        "--root-dir",
        help="Folder of the node's state [that of `tempolet up` at TEMPOLET_RUN_DIR, else /var/lib/kubelet].",
    ),
]
OwnConfig = Annotated[Path | None, typer.Option("--tempolet-config", help="TempoletConfiguration file.")]
NodeName = Annotated[str | None, typer.Option("--hostname-override", help="The node's name.")]
Config = Annotated[Path | None, typer.Option("--config", help="KubeletConfiguration file, if it sets podLogsDir.")]


def node(root_dir: Path | None, own_config: Path | None, name: str | None, config: Path | None = None) -> NodeConfig:
    """Load the configuration of the selected node, or of the one started by `tempolet up`."""
    said = root_dir or own_config or config
    flags = Flags() if said else standalone_node()
    given: dict[str, Any] = {"root_dir": root_dir, "tempolet_config": own_config, "hostname_override": name}
    given["config"] = config
    return load_node_config(replace(flags, **{key: value for key, value in given.items() if value is not None}))


def standalone_node() -> Flags:
    """Return the flags of the node started by `tempolet up`; none if there is none."""
    from worker.standalone.node_config import node_flags
    from worker.standalone.settings import Settings, recorded

    settings = recorded(Settings().run_dir)
    return node_flags(settings) if settings is not None else Flags()


def one_of(value: str, allowed: Sequence[str], option: str) -> str:
    """Check an option's value; raises CommandFailed."""
    if value not in allowed:
        raise CommandFailed(f"{option} {value}: it is one of {', '.join(allowed)}", Exit.USAGE)
    return value
