"""The options by which a command is told which node it is about, and that node's configuration.

Asked by the commands that read (`app`, `logs_options`). The options are the kubelet's, and without any of them the node that
`tempolet up` started is meant.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

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
Config = Annotated[Path | None, typer.Option("--config", help="KubeletConfiguration file, where it says podLogsDir.")]


def node(root_dir: Path | None, own_config: Path | None, name: str | None, config: Path | None = None) -> NodeConfig:
    """Configure the node that a reading command is about: the named one, or the one that `tempolet up` started."""
    said = root_dir or own_config or config
    flags = Flags() if said else standalone_node()
    given: dict[str, Any] = {"root_dir": root_dir, "tempolet_config": own_config, "hostname_override": name}
    given["config"] = config
    return load_node_config(replace(flags, **{key: value for key, value in given.items() if value is not None}))


def standalone_node() -> Flags:
    """Give the flags of the node that `tempolet up` started; none where it started none."""
    from worker.standalone.node_config import node_flags
    from worker.standalone.settings import Settings, recorded

    settings = recorded(Settings().run_dir)
    return node_flags(settings) if settings is not None else Flags()
