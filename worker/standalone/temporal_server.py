"""The Temporal server of a standalone node: `temporal server start-dev`, tuned, with its database in a file.

Used by `up` and `down` and by test fixtures. It runs in a network of its own, which only the gateway
(`worker/standalone/gateway`) leads into: by a unix socket of root's, and by the UI's port on loopback, with a token.
Namespace, retention and search attributes are those of `proto/temporal/names.py`. The tuning is measured: with the
defaults every step of a pod takes 50 ms longer.
"""

import contextlib
import os
import socket
import subprocess
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import grpc

from proto.temporal.names import NAMESPACE, RETENTION_DAYS, SEARCH_ATTRIBUTES
from worker.settings.tempolet_configuration import SYNC_NORMAL
from worker.standalone.gateway.database_folder import DATABASE, FOLDER
from worker.standalone.gateway.places import FRONTEND_PORT, UI_PORT, GatewayPlaces
from worker.standalone.gateway.server_account import STATE, USER
from worker.standalone.gateway.ui_door import CODEC
from worker.standalone.machine import programs
from worker.standalone.machine.private_files import private_folder
from worker.standalone.machine.process import Command, Supervised, own_environment
from worker.standalone.machine.process_log import ProcessLog
from worker.standalone.machine.python_modules import ModuleCommand, module_command
from worker.standalone.machine.units import NodeUnits
from worker.temporal.keys import create_token_file, read_token_file

LOOPBACK: Final = "127.0.0.1"
ROOT_USER: Final = "root"
LONGEST_SOCKET: Final = 107  # unix(7): bytes of a socket's path
READY_WITHIN: Final = timedelta(seconds=60)  # a database of many pods is replayed first
STOP_WITHIN: Final = timedelta(seconds=15)
BETWEEN_TRIES: Final = 0.05
HEALTH_METHOD: Final = "/grpc.health.v1.Health/Check"
FRONTEND: Final = b"temporal.api.workflowservice.v1.WorkflowService"
HEALTH_REQUEST: Final = b"\x0a" + bytes([len(FRONTEND)]) + FRONTEND  # field 1: the service's name
SERVING: Final = b"\x08\x01"  # field 1: SERVING
DYNAMIC_CONFIG: Final = (
    "history.transferProcessorMaxPollRPS=5000",  # the default of 20 a second costs 50 ms a step
    "history.timerProcessorMaxPollRPS=5000",
    "history.visibilityProcessorMaxPollRPS=5000",
    "history.maximumBufferedEventsBatch=10000",
    "history.maximumBufferedEventsSizeInBytes=33554432",
)
"""Temporal breaks a workflow task off once so many events have arrived during it. With the default of 100, whoever signals a pod
without pause ends each task of more than a fifth of a second, the next one replays more, and the run grows until it takes no
signal any more. With these limits the task ends, and while a run waits to continue as new Temporal refuses further signals."""
DAMAGED: Final = ("file is not a database", "database disk image is malformed", "no such table")
"""SQLite's words for a file that was overwritten, or cut off."""
ENVIRONMENT: Final = {"GODEBUG": "adaptivestackstart=1"}
"""A switch of Go's runtime: new goroutines start with the stack size that earlier ones needed. SQLite and the
interceptors need deep stacks, and growing them was a tenth of Temporal's CPU while 110 pods started."""


class TemporalFailed(Exception):
    """The Temporal server failed; the message has the end of its log."""


class TemporalSilent(TemporalFailed):
    """The Temporal server runs, but does not serve yet."""


@dataclass(slots=True)
class TemporalServer:
    """One Temporal server; a context manager that starts and stops it.

    `root` holds the database's folder, `run` the pid file and the gateway's sockets.
    """

    root: Path
    run: Path
    ui_port: int = 8233
    """On loopback."""
    parts_dir: Path = field(default_factory=programs.default_parts_dir)
    units: NodeUnits | None = None
    """What starts it; None: by itself."""
    sync: str = SYNC_NORMAL
    """`history.databaseSync`."""
    user: str = ROOT_USER
    """Who it runs as; the gateway is root's in any case."""

    def __enter__(self) -> "TemporalServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """The frontend's address, as TEMPORAL_ADDRESS takes it: a unix socket."""
        return f"unix://{self.places.frontend}"

    @property
    def ui(self) -> str:
        """The UI's address, where it asks for the token."""
        return f"http://{LOOPBACK}:{self.ui_port}"

    @property
    def login(self) -> str:
        """The URL that opens the UI for whoever has it."""
        return f"http://tempolet:{read_token_file(self.places.token)}@{LOOPBACK}:{self.ui_port}/login"

    @property
    def places(self) -> GatewayPlaces:
        """The gateway's files."""
        return GatewayPlaces(self.run / "temporal")

    @property
    def log_file(self) -> Path:
        """The server's log, if the gateway is a plain process."""
        return self.root / "log" / "temporal.log"

    @property
    def log(self) -> ProcessLog:
        """Where gateway and server log."""
        return self.process.log(self.log_file)

    @property
    def database(self) -> Path:
        """The database file; before the first start with this release it is where `linked_database` is."""
        return self.root / FOLDER / DATABASE

    @property
    def linked_database(self) -> Path:
        """Where an earlier release has the database, and finds it again: the file itself, then a link to `database`."""
        return self.root / DATABASE

    @property
    def process(self) -> Supervised:
        """The gateway, whose child is the server: they end together."""
        return Supervised(self.run / "temporal.pid", self.units)

    def start(self) -> bool:
        """Start it unless it runs, wait until it serves, and prepare the namespace; True if it was started now.

        Raises MissingProgram without a `temporal`, TemporalFailed if a port is in use or it ends, TemporalSilent if it runs and
        does not become ready.
        """
        if self.process.running():
            if not self.places.token.exists():
                raise TemporalFailed("Temporal runs as an earlier release started it: run `tempolet down` first")
            self._wait_until_serving()
            self._set_retention()  # the start before may have ended too early
            return False
        if not is_free(self.ui_port):
            raise TemporalFailed(
                f"port {self.ui_port} on {LOOPBACK} is taken by another program: choose another with --temporal-ui-port"
            )
        if len(os.fsencode(self.places.frontend)) > LONGEST_SOCKET:
            raise TemporalFailed(f"{self.places.frontend} is too long for a socket's path: choose a shorter --run-dir")
        program = programs.find_program(programs.TEMPORAL, self.parts_dir)
        self.prepare()
        gateway = gateway_command()
        argv = [*gateway.argv, self.places.folder, str(self.ui_port), *self.arguments(program)]
        account = {USER: self.user, STATE: str(self.root)}
        self.process.start(Command(argv, self.log_file, ENVIRONMENT | gateway.environment | account))
        self._wait_until_serving()
        self._set_retention()
        return True

    def prepare(self) -> None:
        """Make its folders and another token for the UI, also after a boot."""
        for folder in (self.root, self.run):
            folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        private_folder(self.places.folder)
        self.places.token.unlink(missing_ok=True)
        create_token_file(self.places.token)

    def is_root(self) -> bool:
        """Report whether the server itself is root's: an earlier release has started it, or there was no user for it."""
        gateway = self.process.running()
        with contextlib.suppress(OSError, ValueError):  # it ends, or begins
            children = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children") if gateway else Path(os.devnull)
            return Path(f"/proc/{int(children.read_text())}").stat().st_uid == 0
        return False

    def stop(self) -> bool:
        """Stop it; False if it had to be killed."""
        return self.process.stop(STOP_WITHIN.total_seconds())

    def arguments(self, program: Path) -> list[str | Path]:
        """Return the command line of the server."""
        arguments: list[str | Path] = [program, "server", "start-dev", "--ip", LOOPBACK, "--namespace", NAMESPACE]
        arguments += ["--port", str(FRONTEND_PORT), "--ui-port", str(UI_PORT), "--db-filename", self.database]
        arguments += [
            "--ui-codec-endpoint",
            CODEC.decode(),
            "--log-level",
            "warn",
            "--log-format",
            "json",
            "--ui-disable-news-fetch",
        ]
        for pragma in ("journal_mode=WAL", f"synchronous={self.sync.upper()}"):
            arguments += ["--sqlite-pragma", pragma]
        for setting in DYNAMIC_CONFIG:
            arguments += ["--dynamic-config-value", setting]
        for name, kind in SEARCH_ATTRIBUTES:
            arguments += ["--search-attribute", f"{name}={kind}"]
        return arguments

    def _wait_until_serving(self) -> None:
        until = time.monotonic() + READY_WITHIN.total_seconds()
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        with grpc.insecure_channel(self.address, options=[*options, ("grpc.enable_http_proxy", 0)]) as channel:
            check = channel.unary_unary(HEALTH_METHOD, lambda request: request, lambda answer: answer)
            while True:
                with contextlib.suppress(grpc.RpcError):
                    if check(HEALTH_REQUEST, timeout=2) == SERVING:
                        return
                if not self.process.running():
                    raise TemporalFailed(self._why_it_ended(self.log))
                if time.monotonic() > until:
                    raise TemporalSilent(
                        f"Temporal at {self.address} does not serve after {READY_WITHIN.total_seconds():.0f} s; "
                        f"{self.log.ending()}"
                    )
                time.sleep(BETWEEN_TRIES)

    def _why_it_ended(self, log: ProcessLog) -> str:
        told = log.last_lines()
        if any(one in told for one in DAMAGED):
            return (
                f"Temporal cannot read its database: {told}\nMove {self.database}* away and start again. No pod is restarted for it: the "
                f"node keeps states and restart counts, and hands its pods to the empty database. Histories from before are lost."
            )
        return f"Temporal ended while starting; {log.ending()}"

    def _set_retention(self) -> None:
        """Set the retention of histories to RETENTION_DAYS; start-dev creates namespaces with one day."""
        program = programs.find_program(programs.TEMPORAL, self.parts_dir)
        arguments = ["operator", "namespace", "update", "--address", self.address, "--namespace", NAMESPACE]
        argv: list[str | Path] = [program, *arguments, "--retention", f"{RETENTION_DAYS}d"]
        within = READY_WITHIN.total_seconds()
        try:
            done = subprocess.run(
                argv, env=own_environment(), capture_output=True, text=True, timeout=within, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TemporalSilent(
                f"Temporal at {self.address} did not set the retention of {NAMESPACE} within {within:.0f} s; see {self.log.where}"
            ) from error
        if done.returncode:
            raise TemporalFailed(f"namespace {NAMESPACE} could not be set up: {done.stderr.strip()}")


def gateway_command() -> ModuleCommand:
    """Return the command of this release's gateway, without its arguments."""
    return module_command("worker.standalone.gateway")


def is_free(port: int) -> bool:
    """Report whether a loopback port is unused."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
