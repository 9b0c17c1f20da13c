"""The services `worker`, `poller` and `node` in the help of `tempolet`; they are started by `serve`.

`cli` starts a service without typer if its name comes first, so these functions run only if an option precedes the name.
"""

from typing import Any, Final

import typer

PASSED_ON: Final[dict[str, Any]] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def add_to(app: typer.Typer) -> None:
    """Register the three services."""
    app.command(context_settings=PASSED_ON, short_help="Run the pods of this node (a service).")(worker)
    app.command(
        context_settings=PASSED_ON, short_help="Watch manifests and runtime, and signal the workflows (a service)."
    )(poller)
    app.command(
        context_settings=PASSED_ON, short_help="Register as a node of a cluster: object, lease, HTTPS API (a service)."
    )(node)


def worker(context: typer.Context) -> None:
    """Run the pods of this node (a service)."""
    _serve("worker", context)


def poller(context: typer.Context) -> None:
    """Watch manifests and the container runtime, and signal the workflows (a service)."""
    _serve("poller", context)


def node(context: typer.Context) -> None:
    """Register this machine as a node of a cluster: object, lease, HTTPS API (a service)."""
    _serve("node", context)


def _serve(name: str, context: typer.Context) -> None:
    from worker.commands.serve import serve

    serve(name, context.args)
