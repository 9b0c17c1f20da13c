"""The command line of `tempolet behaviour`; `change/behaviour.py` does the work and is imported only when it runs."""

from typing import Annotated

import typer

from worker.commands.node_options import NodeName, OwnConfig, RootDir, node, one_of


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    short = "Show which behaviours the node's runs follow; commit the node to this release's."
    app.command(short_help=short)(behaviour)


def behaviour(  # noqa: PLR0917 - one parameter for each option, as typer wants it
    commit: Annotated[bool, typer.Option("--commit", help="Commit the node to this release's.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Show how many runs follow each behaviour. With --commit older runs continue with the newest; the previous release can't run them any more."""
    from worker.commands.change.behaviour import show

    one_of(output, ("table", "json"), "--output")
    show(node(root_dir, own_config, name), commit=commit, output=output)
