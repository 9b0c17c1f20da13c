"""The commands of `tempolet` as a typer application; the code of each command is in a module of its own.

Called by `cli.run` for everything but the services. Options that name a node are the kubelet's; without any of them the
node started by `tempolet up` is used.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from typer._click import exceptions as click  # the click that typer bundles: its usage errors are reported as ours

from worker.commands import behaviour_options, fetch, joining_options, logs_options, service_options, standalone
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.node_options import NodeName, OwnConfig, RootDir, node, one_of
from worker.daemon.logs import warnings_on_stderr

app = typer.Typer(
    name="tempolet",
    help="A Kubernetes node agent in which every pod's life is a durable Temporal workflow.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 already running, "
    "5 a replayed history differs. Without --root-dir the node of `tempolet up` is used; TEMPOLET_RUN_DIR and "
    "TEMPOLET_STATE_DIR name its folders, unless they are /run/tempolet and /var/lib/tempolet. --debug before or after a command shows the traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a help text are defaults, not markup
)

standalone.add_to(app)
fetch.add_to(app)
joining_options.add_to(app)
logs_options.add_to(app)
behaviour_options.add_to(app)

GracePeriod = Annotated[
    int | None,
    typer.Option("--grace-period", min=0, max=2**31 - 1, help="Seconds from now [the pod's own grace]."),
]
Output = Annotated[str, typer.Option("--output", "-o", help="table, wide or json.")]


def run_app(words: Sequence[str]) -> int:
    """Run one command line; raises CommandFailed for wrong usage."""
    try:
        with warnings_on_stderr():
            code = app(list(words), prog_name="tempolet", standalone_mode=False)
    except click.NoArgsIsHelpError as error:
        typer.echo(error.ctx.get_help() if error.ctx else "see tempolet --help", err=True)
        return Exit.USAGE
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tempolet"
        raise CommandFailed(f"{error.format_message()} (see `{where} --help`)", Exit.USAGE) from error
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else Exit.DONE


@app.command(short_help="Print the version.")
def version() -> None:
    """Print the version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from worker.host.replays.build import build_id
    from worker.settings.kubelet.schema import load_schema

    try:
        ours = installed("tempolet")
    except PackageNotFoundError:
        ours = "from a checkout"
    typer.echo(f"tempolet {ours} (kubelet configuration and feature gates of Kubernetes {load_schema().version})")
    typer.echo(f"build {build_id()}, as Temporal shows it")


@app.command(short_help="Show the node's pods, refused manifests and the runtime's state.")
def pods(  # noqa: PLR0917 - one parameter an option, as typer requires
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Output = "table",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show each change.")] = False,  # noqa: FBT002 - an option
) -> None:
    """Show the node's pods, refused manifests and the runtime's state; needs no Temporal."""
    from worker.commands.show.pods import show

    one_of(output, ("table", "wide", "json"), "--output")
    show(node(root_dir, own_config, name), output=output, watch=watch)


@app.command(short_help="Show image disk usage, removed images and why, images to be prepulled.")
def images(
    root_dir: RootDir = None, own_config: OwnConfig = None, name: NodeName = None, output: Output = "table"
) -> None:
    """Show how full the image file system is, which images were removed and why, which are to be prepulled."""
    from worker.commands.show.images import show

    one_of(output, ("table", "json"), "--output")
    show(node(root_dir, own_config, name), output=output)


@app.command(short_help="Show a pod's history with times and durations, even after the pod is gone.")
def history(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there were several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All pods of this name, oldest first.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Output = "table",
) -> None:
    """Show a pod's history with times and durations, even after the pod is gone."""
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.show.history import show

    one_of(output, ("table", "wide", "json"), "--output")
    selector = replace(PodSelector.parse(pod), uid=uid, every=every, node=name)
    show(node(root_dir, own_config, name), selector, output=output)


@app.command(short_help="Show what a pod waits for now, and what happens next.")
def explain(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there were several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show what a pod waits for now and what happens next; answered by the pod's workflow."""
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.show.explain import show

    one_of(output, ("text", "json"), "--output")
    show(node(root_dir, own_config, name), replace(PodSelector.parse(pod), uid=uid, node=name), output=output)


@app.command("skip-backoff", short_help="Restart a crash-looping container now, pull a missing image now.")
def skip_backoff(  # noqa: PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    container: Annotated[
        str, typer.Argument(metavar="[CONTAINER]", help="Only this one [all that are backed off].")
    ] = "",
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """End a pod's waits in CrashLoopBackOff and ImagePullBackOff. Its history shows who asked."""
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.change.skip_backoff import run

    run(node(root_dir, own_config, name), replace(PodSelector.parse(pod), node=name), container)


@app.command(short_help="Set a pod condition that others decide, such as a readiness gate.")
def condition(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    said: Annotated[str, typer.Argument(metavar="TYPE=STATUS", help="True, False or Unknown.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, in one CamelCase word.")] = "",
    message: Annotated[str, typer.Option("--message", help="Why, in words.")] = "",
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Set a pod condition that others decide, such as one of spec.readinessGates, which Ready waits for."""
    from proto.temporal.operator import SetCondition
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.change.condition import parse, run
    from worker.commands.change.updates import operator

    asked = SetCondition(operator(), *parse(said), reason, message)
    run(node(root_dir, own_config, name), replace(PodSelector.parse(pod), node=name), asked)


@app.command(short_help="Shorten the grace period of a terminating pod.")
def stop(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    grace_period: GracePeriod = None,
    force: Annotated[bool, typer.Option("--force", help="Grace period 0: kill containers after a second.")] = False,  # noqa: FBT002 - an option
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there are several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Shorten the grace period of a pod that is terminating. It is never extended."""
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.change.stop import grace_of, run

    selector = replace(PodSelector.parse(pod), uid=uid, node=name)
    run(node(root_dir, own_config, name), selector, grace_of(grace_period, force=force))


@app.command(short_help="Inspect a running pod with an ephemeral container.")
def debug(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="[the image's own].")] = None,
    image: Annotated[str, typer.Option("--image", help="The container's image.")] = "",
    target: Annotated[str, typer.Option("--target", help="Share the process namespace of this container.")] = "",
    container: Annotated[str, typer.Option("--name", help="The container's name [debugger-XXXXX].")] = "",
    env: Annotated[list[str] | None, typer.Option("--env", metavar="K=V", help="A variable; may be repeated.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Add an ephemeral container to a running pod; it is never restarted, and ends with the pod."""
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.change.debug import DebugContainer, run

    if not image:
        raise CommandFailed("--image: name an image, for example --image busybox:1.37", Exit.USAGE)
    asked = DebugContainer(image, container, target, tuple(env or ()), tuple(command or ()))
    run(node(root_dir, own_config, name), replace(PodSelector.parse(pod), node=name), asked)


@app.command(short_help="Evict a pod: it fails and is not started again.")
def evict(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer requires
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    reason: Annotated[str, typer.Option("--reason", help="One word for status.reason.")] = "Evicted",
    message: Annotated[str, typer.Option("--message", help="Why, in words [who asked].")] = "",
    grace_period: GracePeriod = None,
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there are several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Evict a pod: it fails and is not started again until its manifest is removed or changed."""
    from datetime import timedelta

    from proto.temporal.operator import EvictPod
    from worker.commands.access.pod_selection import PodSelector
    from worker.commands.change.evict import run
    from worker.commands.change.updates import operator

    grace = None if grace_period is None else timedelta(seconds=grace_period)
    selector = replace(PodSelector.parse(pod), uid=uid, node=name)
    run(node(root_dir, own_config, name), selector, EvictPod(operator(), reason, message, grace))


@app.command(short_help="Replay live or exported histories against this code.")
def replay(  # noqa: PLR0917 - one parameter an option, as typer requires
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="Exported histories.")] = None,
    live: Annotated[bool, typer.Option("--live", help="The histories of this node's open workflows.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> int:
    """Replay histories against this code, for example before an upgrade; exit code 5 if one differs."""
    from worker.commands.replay import run

    if live == bool(files):
        raise CommandFailed("give --live or files of exported histories", Exit.USAGE)
    return run(node(root_dir, own_config, name), files or [])


@app.command(short_help="Switch this machine's node to this release.")
def upgrade(  # noqa: PLR0917 - one parameter an option, as typer requires
    force: Annotated[  # noqa: FBT002 - an option
        bool,
        typer.Option(
            "--force", help="Also if the histories of pods do not replay: another run takes the place of each."
        ),
    ] = False,
    within: Annotated[float, typer.Option(help="Seconds that each process has to work.", min=1)] = 120.0,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> int:
    """Restart worker, poller and node process with this release, and bring the release before back if one does not work."""
    from worker.commands.upgrade import run

    return run(node(root_dir, own_config, name), within=within, force=force)


@app.command(short_help="Show the keys that encrypt payloads, or add one.")
def keys(
    rotate: Annotated[bool, typer.Option("--rotate", help="Add a key, used from the next start on.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Show the ids of the keys that encrypt payloads, and the URL that decodes them (`temporal … --codec-endpoint`)."""
    from worker.commands.keys import show

    show(node(root_dir, own_config, name), rotate=rotate)


service_options.add_to(app)  # last in the help
