"""The options of `tempolet logs`; its code is in `show/logs.py`."""

from typing import Annotated

import typer

from worker.commands.node_options import Config, NodeName, OwnConfig, RootDir, node


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(short_help="Print the logs of a pod's containers.")(logs)


def logs(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    container: Annotated[str, typer.Option("--container", "-c", help="Container [the pod's first].")] = "",
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Print the previous run's log.")] = False,  # noqa: FBT002 - an option
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the container exits.")] = False,  # noqa: FBT002 - an option
    tail: Annotated[int | None, typer.Option("--tail", min=0, help="Number of last lines [all].")] = None,
    since: Annotated[str, typer.Option("--since", help="Only lines newer than a duration such as 5s, 2m or 3h.")] = "",
    since_time: Annotated[str, typer.Option("--since-time", help="Only lines newer than this RFC 3339 time.")] = "",
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Start each line with its time.")] = False,  # noqa: FBT002 - an option
    limit_bytes: Annotated[int | None, typer.Option("--limit-bytes", min=1, help="Maximum number of bytes.")] = None,
    every: Annotated[bool, typer.Option("--all-containers", help="Print the logs of all containers.")] = False,  # noqa: FBT002 - an option
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there are several.")] = None,
    config: Config = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Print the log of a container as `kubectl logs` does; needs neither Temporal nor the runtime."""
    from dataclasses import replace

    from activities.logs.reader import LogOptions
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.show.logs import LogsRequest, parse_since, show

    options = LogOptions(
        tail_lines=tail, since=parse_since(since, since_time), timestamps=timestamps, limit_bytes=limit_bytes
    )
    asked = LogsRequest(options, container, every=every, previous=previous, follow=follow)
    show(node(root_dir, own_config, name, config), replace(PodSelector.parse(pod), uid=uid), asked)
