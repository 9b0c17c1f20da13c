"""The commands an operator types, as a typer application; each one's work stands in a file of its own.

Called by `cli.run` for everything but the services. Options that name a node are the kubelet's, and without any of them the
node that `tempolet up` started is meant.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer._click import exceptions as click  # the click that typer carries: its usage errors are told in our words

from worker.commands import behaviour_options, logs_options, standalone
from worker.commands.exits import CommandFailed, Exit
from worker.commands.node_options import NodeName, OwnConfig, RootDir, node

app = typer.Typer(
    name="tempolet",
    help="A Kubernetes node agent in which every pod's life is a durable Temporal workflow.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 not found, 4 already running, "
    "5 a replayed history differs. Without --root-dir the node of `tempolet up` is meant; TEMPOLET_RUN_DIR and "
    "TEMPOLET_STATE_DIR name its folders, unless they are /run/tempolet and /var/lib/tempolet. --debug before or after a command shows the traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # brackets in a help text are defaults, not markup
)

standalone.add_to(app)
logs_options.add_to(app)
behaviour_options.add_to(app)

GracePeriod = Annotated[
    int | None,
    typer.Option("--grace-period", min=0, max=2**31 - 1, help="Seconds from now [the pod's own grace]."),
]
Output = Annotated[str, typer.Option("--output", "-o", help="table, wide or json.")]


def run_app(words: Sequence[str]) -> int:
    """Run one command line; raises CommandFailed for a wrong one."""
    try:
        code = app(list(words), prog_name="tempolet", standalone_mode=False)
    except click.NoArgsIsHelpError as error:
        typer.echo(error.ctx.get_help() if error.ctx else "tempolet --help says more", err=True)
        return Exit.USAGE
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "tempolet"
        raise CommandFailed(f"{error.format_message()} (`{where} --help` says more)", Exit.USAGE) from error
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else Exit.DONE


def one_of(value: str, allowed: Sequence[str], option: str) -> str:
    """Check a choice; raises CommandFailed."""
    if value not in allowed:
        raise CommandFailed(f"{option} {value}: it is one of {', '.join(allowed)}", Exit.USAGE)
    return value


@app.command(short_help="Print the version.")
def version() -> None:
    """Print the version."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    from worker.settings.kubelet_schema import load_schema

    try:
        ours = installed("tempolet")
    except PackageNotFoundError:
        ours = "from a checkout"
    typer.echo(f"tempolet {ours} (kubelet configuration and feature gates of Kubernetes {load_schema().version})")


@app.command(short_help="Show the node's pods, refused manifests and the runtime's state.")
def pods(  # noqa: PLR0917 - one parameter an option, as typer wants it
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Output = "table",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show each change.")] = False,  # noqa: FBT002 - an option
) -> None:
    """Show the node's pods, refused manifests and the runtime's state; needs no Temporal."""
    from worker.commands.pods import show

    one_of(output, ("table", "wide", "json"), "--output")
    show(node(root_dir, own_config, name), output=output, watch=watch)


@app.command(short_help="Show the images' disk, what was removed from it and why, what is to be prepulled.")
def images(
    root_dir: RootDir = None, own_config: OwnConfig = None, name: NodeName = None, output: Output = "table"
) -> None:
    """Show how full the images' disk is, what was removed and why, and what of the prepull list is still missing."""
    from worker.commands.images import show

    one_of(output, ("table", "json"), "--output")
    show(node(root_dir, own_config, name), output=output)


@app.command(short_help="Tell a pod's story with times and durations, also of a pod that is gone.")
def history(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there were several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All pods of this name, oldest first.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Output = "table",
) -> None:
    """Tell a pod's story with times and durations, also of a pod that is gone."""
    from worker.commands.history import show
    from worker.commands.wanted import Wanted

    one_of(output, ("table", "wide", "json"), "--output")
    wanted = replace(Wanted.parse(pod), uid=uid, every=every, node=name)
    show(node(root_dir, own_config, name), wanted, output=output)


@app.command(short_help="Say what a pod waits for now, and what would happen next.")
def explain(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there were several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Say what a pod waits for now, what is held back by what, and what would happen next; asks the pod's workflow."""
    from worker.commands.explain import show
    from worker.commands.wanted import Wanted

    one_of(output, ("text", "json"), "--output")
    show(node(root_dir, own_config, name), replace(Wanted.parse(pod), uid=uid, node=name), output=output)


@app.command("skip-backoff", short_help="Restart a crash-looping container now, pull a missing image now.")
def skip_backoff(  # noqa: PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    container: Annotated[str, typer.Argument(metavar="[CONTAINER]", help="Only this one [all that wait].")] = "",
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """End a pod's waits in CrashLoopBackOff and ImagePullBackOff; who asked stands in its history."""
    from worker.commands.skip_backoff import run
    from worker.commands.wanted import Wanted

    run(node(root_dir, own_config, name), replace(Wanted.parse(pod), node=name), container)


@app.command(short_help="Say a pod's condition that others judge: a readiness gate's.")
def condition(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    said: Annotated[str, typer.Argument(metavar="TYPE=STATUS", help="True, False or Unknown.")],
    reason: Annotated[str, typer.Option("--reason", help="Why, in one CamelCase word.")] = "",
    message: Annotated[str, typer.Option("--message", help="Why, in words.")] = "",
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Say a condition of the pod that is not the node's to judge; Ready waits for those in spec.readinessGates."""
    from proto.temporal.operator import SetCondition
    from worker.commands.asking import operator
    from worker.commands.condition import parse, run
    from worker.commands.wanted import Wanted

    asked = SetCondition(operator(), *parse(said), reason, message)
    run(node(root_dir, own_config, name), replace(Wanted.parse(pod), node=name), asked)


@app.command(short_help="Let a pod that is going be down sooner.")
def stop(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    grace_period: GracePeriod = None,
    force: Annotated[bool, typer.Option("--force", help="As soon as can be: a grace of 0.")] = False,  # noqa: FBT002 - an option
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there are several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Shorten the grace of a pod whose manifest is gone or that ends for another reason; nothing ever lengthens it."""
    from worker.commands.stop import grace_of, run
    from worker.commands.wanted import Wanted

    wanted = replace(Wanted.parse(pod), uid=uid, node=name)
    run(node(root_dir, own_config, name), wanted, grace_of(grace_period, force=force))


@app.command(short_help="Look into a running pod with one more container, started once.")
def debug(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="[the image's own].")] = None,
    image: Annotated[str, typer.Option("--image", help="The container's image.")] = "",
    target: Annotated[str, typer.Option("--target", help="See the processes of this container.")] = "",
    container: Annotated[str, typer.Option("--name", help="The container's name [debugger-<5 signs>].")] = "",
    env: Annotated[list[str] | None, typer.Option("--env", metavar="K=V", help="A variable; may be repeated.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Add an ephemeral container to a running pod; it is never restarted, and goes with the pod."""
    from worker.commands.debug import Look, run
    from worker.commands.wanted import Wanted

    if not image:
        raise CommandFailed("--image: say which image to look with, for example --image busybox:1.37", Exit.USAGE)
    look = Look(image, container, target, tuple(env or ()), tuple(command or ()))
    run(node(root_dir, own_config, name), replace(Wanted.parse(pod), node=name), look)


@app.command(short_help="End a pod for the node's sake: it fails, and stays so.")
def evict(  # noqa: PLR0913, PLR0917 - one parameter an option, as typer wants it
    pod: Annotated[str, typer.Argument(metavar="NAMESPACE/POD")],
    reason: Annotated[str, typer.Option("--reason", help="One word for status.reason.")] = "Evicted",
    message: Annotated[str, typer.Option("--message", help="Why, in words [who asked].")] = "",
    grace_period: GracePeriod = None,
    uid: Annotated[str | None, typer.Option("--uid", help="The pod of this UID, when there are several.")] = None,
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Stop a pod though its manifest lists it; it has failed, and stays so until its manifest goes or changes."""
    from datetime import timedelta

    from proto.temporal.operator import EvictPod
    from worker.commands.asking import operator
    from worker.commands.evict import run
    from worker.commands.wanted import Wanted

    grace = None if grace_period is None else timedelta(seconds=grace_period)
    wanted = replace(Wanted.parse(pod), uid=uid, node=name)
    run(node(root_dir, own_config, name), wanted, EvictPod(operator(), reason, message, grace))


@app.command(short_help="Replay live or exported histories against this code.")
def replay(  # noqa: PLR0917 - one parameter an option, as typer wants it
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="Exported histories.")] = None,
    live: Annotated[bool, typer.Option("--live", help="The histories of this node's open pods.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> int:
    """Replay histories against this code, for example before an upgrade; exit code 5 when one does not fit."""
    from worker.commands.replay import run

    if live == bool(files):
        raise CommandFailed("give either --live or files of exported histories", Exit.USAGE)
    return run(node(root_dir, own_config, name), files or [])


@app.command(short_help="Show which keys seal the payloads, and add one.")
def keys(
    rotate: Annotated[bool, typer.Option("--rotate", help="Add a key, which seals from the next start on.")] = False,  # noqa: FBT002 - an option
    root_dir: RootDir = None,
    own_config: OwnConfig = None,
    name: NodeName = None,
) -> None:
    """Show the ids of the keys that seal payloads, and where payloads are decoded (`temporal … --codec-endpoint`)."""
    from worker.commands.keys import show

    show(node(root_dir, own_config, name), rotate=rotate)


PASSED_ON: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=PASSED_ON, short_help="Run the pods of this node (a service).")
def worker(context: typer.Context) -> None:
    """Run the pods of this node (a service)."""
    _serve("worker", context)


@app.command(context_settings=PASSED_ON, short_help="Watch manifests and runtime, and tell the workflows (a service).")
def poller(context: typer.Context) -> None:
    """Watch the manifests and the runtime, and tell the workflows (a service)."""
    _serve("poller", context)


@app.command(
    "node", context_settings=PASSED_ON, short_help="Be a node of a cluster: object, lease, HTTPS API (a service)."
)
def node_service(context: typer.Context) -> None:
    """Be a node of a cluster: its object, its lease, its HTTPS API (a service)."""
    _serve("node", context)


def _serve(name: str, context: typer.Context) -> None:
    """Only reached when an option stands before the command's name; `cli` knows the services itself."""
    from worker.commands.serve import serve

    serve(name, context.args)
