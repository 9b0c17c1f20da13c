"""`tempolet`: the console script.

Two ways in: the services (`worker`, `poller`, `node`) start without any command-line library, everything else goes to the typer
application in `commands/app.py`. Whatever goes wrong ends here, as one line and an exit code (`commands/exits.py`).
"""

import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from worker.commands.access.exits import Exit, tell


def main() -> NoReturn:
    """Run the command line of this process, and end it there and then.

    Temporal's core has threads of its own; one that calls back while Python takes itself down aborts the process, and a
    command that had done its work would end with signal 6. So what Python does at its end is done here, and no more.
    """
    code = run(sys.argv[1:])
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code; prints, never raises."""
    ours = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)  # what follows is another's
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
        sys.stdout.flush()  # here, where a reader that went away is no traceback
        return code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the one place where every error becomes a line
        return tell(error, debug=debug)


if __name__ == "__main__":
    main()
