"""The release before, as far as histories can tell: it does not know the newest behaviours, and its build is another one.

Run as a module, with the arguments of `tempolet`. The code of the behaviours that it knows is today's: releases may change nothing in what
they replay, which `tests/replay/` checks. (A checkout of an older commit would be the real one, but tests also run without a git history.)
"""

from workflows.decide import versions


def main() -> None:
    """Run the release before."""
    for known in (versions.BEHAVIOURS, versions.NODE_BEHAVIOURS):
        del known[max(known)]
    versions.CURRENT = max(versions.BEHAVIOURS)  # type: ignore[misc]  # before anything imports it by name
    versions.CURRENT_NODE = max(versions.NODE_BEHAVIOURS)  # type: ignore[misc]
    from worker.host.replays import build  # noqa: PLC0415 - once the numbers are replaced

    build.digest = lambda: "b" * 64  # type: ignore[assignment]
    from worker.cli import main as cli  # noqa: PLC0415 - the same

    cli()


if __name__ == "__main__":
    main()
