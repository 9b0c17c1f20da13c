"""Runs Temporal in a network of its own: `python -m worker.standalone.gateway FOLDER UI-PORT COMMAND…`.

Started by `TemporalServer`. The token is read from a file, because everybody can read arguments. The gateway stays root: its sockets
and the token are root's. Temporal itself is the user's that the environment names (`server_account.py`).
"""

import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from worker.standalone.gateway.carrying import STACK_BYTES, serve_connections
from worker.standalone.gateway.database_folder import ROOT
from worker.standalone.gateway.frontend import Frontend
from worker.standalone.gateway.kept_capability import keep_capabilities, keep_one
from worker.standalone.gateway.own_network import (
    end_with_parent,
    enter_own_network,
    hold_alone,
    listen_at_path,
    listen_on_loopback,
)
from worker.standalone.gateway.places import FRONTEND_PORT, UI_PORT, GatewayPlaces
from worker.standalone.gateway.server_account import ServerAccount, server_environment
from worker.standalone.gateway.ui_door import UiDoor

CLIENTS: Final = 256
BROWSERS: Final = 64


def main(folder: Path, ui_port: int, command: Sequence[str]) -> int:
    """Run until Temporal ends or SIGTERM comes; returns Temporal's exit code."""
    places, account = GatewayPlaces(folder), ServerAccount.told_by(os.environ)
    lock = hold_alone(places.lock)
    account.prepare()
    ui = listen_on_loopback(ui_port)
    frontend = listen_at_path(places.frontend)
    enter_own_network()
    keep_capabilities(are_kept=True)
    temporal = subprocess.Popen(
        command,
        cwd="/",
        env=server_environment(os.environ),
        pass_fds=(lock,),
        preexec_fn=functools.partial(_before_temporal, os.getpid(), account),  # noqa: PLW1509 - no other thread runs yet
        **account.process_options(),
    )
    keep_capabilities(are_kept=False)
    signal.signal(signal.SIGTERM, lambda *_: temporal.terminate())
    signal.signal(signal.SIGINT, lambda *_: temporal.terminate())
    threading.stack_size(STACK_BYTES)
    door = UiDoor(places.token.read_text(encoding="ascii").strip(), UI_PORT, places.codec)
    for listener, serve, at_once in ((frontend, Frontend(FRONTEND_PORT).serve, CLIENTS), (ui, door.serve, BROWSERS)):
        threading.Thread(target=serve_connections, args=(listener, serve, at_once), daemon=True).start()
    return temporal.wait()


def _before_temporal(parent: int, account: ServerAccount) -> None:
    """Called in the child, which is the other user's already: the kernel forgets both when a process becomes that."""
    if account.owner != ROOT:
        keep_one()
    end_with_parent(parent)


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
    except OSError as error:
        sys.exit(f"the gateway of Temporal ended: {error}")
