"""`tempolet`: the console script.

The services (`worker`, `poller`, `node`) start without any command-line library; everything else is handled by the typer
application in `commands/app.py`. Every error ends here as one line and an exit code (`commands/access/exits.py`).
"""

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from worker.commands.access.exits import Exit, report_error


def main() -> NoReturn:
    """Run the command line of this process and exit.

    Temporal's core has threads of its own. If one of them calls back while the Python interpreter shuts down, the
    process aborts with signal 6, although the command succeeded. So the exit handlers that are needed run here, and
    `os._exit` skips the rest.
    """
    code = run(sys.argv[1:])
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; prints errors, never raises."""
    ours = list(
        arguments[: arguments.index("--")] if "--" in arguments else arguments
    )  # what follows `--` is the command of another program
    debug = "--debug" in ours
    words = [one for one in ours if one != "--debug"] + list(arguments[len(ours) :])
    try:
        if words and words[0] in {"worker", "poller", "node"}:
            from worker.commands.serve import serve

            serve(words[0], words[1:])
            code: int = Exit.DONE
        else:
            from worker.commands.app import run_app

            code = run_app(words)
        sys.stdout.flush()  # here, so that a closed pipe is not a traceback
        return code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where every error becomes a line
        return report_error(error, debug=debug)


if __name__ == "__main__":
    main()
