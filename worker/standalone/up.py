"""`tempolet up`: starts a whole node on this machine, and prints each step with its duration.

Every step checks first what is done already, so a second `up` changes nothing that is right. If a step fails, what was
started keeps running: `tempolet down` stops it. A Temporal that runs and does not answer is no failure: the node starts, and its
pods run once it answers.
"""

import asyncio
import os
import shutil
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final

from activities.clients.systemd.bus import SystemdRefused, SystemdUnavailable
from activities.clients.systemd.units import systemd_error
from activities.files.atomic_files import sync_folder, write_atomically
from activities.machine.cgroup_names import CgroupDriver
from proto.pod_snapshot import read_snapshots
from worker.daemon.config import STATE_DIRECTORY, node_name
from worker.documents.printable import printable
from worker.machine.fitness import MachineUnfit, refuse_unfit_machine
from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.static_pod import Refused
from worker.settings.cgroups.driver import refuse_unusable
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.standalone import pods_watch
from worker.standalone.containerd import ContainerdFailed, image_names
from worker.standalone.containerd_config import PAUSE_IMAGE
from worker.standalone.cri_client import CriClient, RuntimeNotReady, given_runtime, without_user_namespaces
from worker.standalone.joining import NotJoined, until_joined
from worker.standalone.machine.owner_marks import TakenByAnother, claim_cgroup, claim_state, refuse_state_of_another
from worker.standalone.machine.private_files import private_folder
from worker.standalone.machine.process import Identity
from worker.standalone.machine.programs import TEMPORAL, MissingProgram, find_program
from worker.standalone.machine.system_user import NoUser
from worker.standalone.machine.units import UnitNotOurs
from worker.standalone.node_config import (
    boot_command,
    healthz_port,
    log_of,
    logs_of,
    node_command,
    node_process,
    roles,
    write_configuration,
)
from worker.standalone.progress import Progress
from worker.standalone.settings import OtherSettings, Settings
from worker.standalone.temporal_server import LOOPBACK, ROOT_USER, TemporalFailed, TemporalSilent, is_free
from worker.telemetry.process_state import process_state
from worker.temporal.keys import create_key_file
from worker.temporal.private_files import KeyFileRefused

PODS_WITHIN: Final = timedelta(minutes=2)  # image pulls included
ASKED_WITHIN: Final = timedelta(seconds=2)
HEALTHY_WITHIN: Final = timedelta(minutes=3)  # a slow machine takes one; what has ended is told at once
JOINED_WITHIN: Final = timedelta(seconds=60)
GIVEN_RUNTIME_WITHIN: Final = timedelta(seconds=10)
REPORTED_AFTER: Final = timedelta(
    seconds=3
)  # the first attempt of a sandbox or a pull may fail and the next one succeed
BETWEEN_LOOKS: Final = 0.05
_NOT_UP: Final = (
    OtherSettings,
    MissingProgram,
    TakenByAnother,
    ContainerdFailed,
    RuntimeNotReady,
    TemporalFailed,
    KeyFileRefused,
    NotJoined,
    SystemdUnavailable,
    SystemdRefused,
    UnitNotOurs,
    MachineUnfit,
    ConfigurationRefused,
)


class UpFailed(Exception):
    """The node did not start; the message says why and where to look."""


def up(settings: Settings, manifests: Sequence[Path] = (), progress: Progress | None = None) -> list[str]:
    """Start a node, put manifests into its folder, and wait until every pod of the folder runs or shows why not.

    Returns the given manifests whose pods do not run. Raises UpFailed with one message for the operator.
    """
    show = progress or Progress()
    if os.geteuid() != 0:
        raise UpFailed("`tempolet up` needs root: containerd makes mounts, network namespaces and cgroups")
    try:
        refuse_state_of_another(settings.state_dir, settings.containerd.owner)
        for warning in refuse_unfit_machine(settings.state_dir, new=not settings.state_dir.exists()):
            show.say(f"warning: {warning}")
        if settings.container_runtime_endpoint:
            _look_at_given_runtime(settings, show)
        if settings.systemd and (error := systemd_error()):
            raise SystemdUnavailable(
                f"nothing was changed: {error}; see why systemd does not answer, or give --no-systemd"
            )
        settings.keep()
        claim_state(settings.state_dir, settings.containerd.owner)
        if settings.systemd:
            settings.keep_for_next_boot()
        _start_containerd(settings, show)
        _start_temporal(settings, show)
        _start_node(settings, show)
        missing = _run_pods(settings, manifests, show)
    except _NOT_UP as error:
        raise UpFailed(str(error)) from error
    show.say(f"up in {show.total():.1f} s")
    show.say(f"Temporal UI  {settings.temporal.login}")
    show.say(f"manifests    {settings.manifests}")
    show.say(f"objects      {settings.objects}")
    show.say(f"logs         {logs_of(settings)}")
    for words in missing.values():
        show.say(f"does not run {words}")
    given = {settings.manifests / one.name for one in manifests}
    return [words for path, words in missing.items() if path in given]


def _look_at_given_runtime(settings: Settings, show: Progress) -> None:
    """Check that the operator's own runtime can be used; raises RuntimeNotReady, ConfigurationRefused."""
    given_runtime(settings.endpoint, GIVEN_RUNTIME_WITHIN)
    _refuse_unusable_driver(settings)
    if missing := without_user_namespaces(settings.endpoint):
        show.say(f"note: {missing}")


def _refuse_unusable_driver(settings: Settings) -> None:
    """Check that this machine can use the given runtime's cgroup driver; raises ConfigurationRefused."""
    with CriClient(settings.runtime_socket) as runtime:
        driver = runtime.cgroup_driver()
    error = systemd_error() if driver is CgroupDriver.SYSTEMD else ""
    try:
        refuse_unusable(driver, systemd_error=error, others=())
    except ConfigurationRefused as refused:
        raise ConfigurationRefused(f"nothing was changed: {refused}") from refused


def _start_containerd(settings: Settings, show: Progress) -> None:
    with show.step("containerd") as step:
        if settings.container_runtime_endpoint:
            claim_cgroup(settings.cgroup, settings.containerd.owner)
            step.detail = f"{given_runtime(settings.endpoint, GIVEN_RUNTIME_WITHIN)}, yours, at {settings.endpoint}"
            return
        containerd = settings.containerd
        running = bool(containerd.process.running())
        step.detail = f"{containerd.start()}, private{', runs already' if running else ''}"
    with show.step("images") as step, CriClient(containerd.socket) as runtime:
        archives = sorted((settings.parts_dir / "images").glob("*.tar"))
        missing = [one for one in archives if not all(map(runtime.has_image, image_names(one)))]
        for archive in missing:
            step.doing(archive.stem)
            containerd.import_image(archive)
        step.detail = f"imported {', '.join(one.stem for one in missing)}" if missing else "there already"
        if not runtime.has_image(PAUSE_IMAGE):
            step.detail += f"; no {PAUSE_IMAGE} in {settings.parts_dir}: it will be pulled"


def _start_temporal(settings: Settings, show: Progress) -> None:
    create_key_file(settings.key_file)
    temporal = settings.temporal
    if settings.systemd and not temporal.process.running():
        temporal = replace(temporal, user=user_of_temporal(settings, show))
    with show.step("Temporal") as step:
        try:
            started = temporal.start()
        except TemporalSilent:
            step.detail = (
                f"{temporal.address} does not answer yet, the node starts without it; see {temporal.log.where}"
            )
        else:
            as_root = ", as root" if not started and settings.systemd and temporal.is_root() else ""
            step.detail = f"{temporal.address}{'' if started else ', runs already'}{as_root}"


def user_of_temporal(settings: Settings, show: Progress) -> str:
    """Make the user that Temporal runs as, and return its name; root's if there can be none, which is said. Raises MissingProgram."""
    user = settings.temporal_user
    try:
        user.make()
        user.require_use(settings.state_dir, find_program(TEMPORAL, settings.parts_dir))
    except NoUser as error:
        show.say(f"warning: Temporal runs as root: {error}")
        return ROOT_USER
    return user.name


def _start_node(settings: Settings, show: Progress) -> None:
    """Start the node's processes together, then wait until each is healthy, and the cluster has the node."""
    for directory in (settings.root_dir, settings.manifests, settings.objects, settings.logs):
        private_folder(directory)
    (settings.logs / "pods").mkdir(exist_ok=True, mode=0o755)
    write_configuration(settings)
    ran = {role: node_process(settings, role).running() for role in roles(settings)}
    for role in roles(settings):
        if not ran[role]:
            _refuse_taken_ports(settings, role)
            node_process(settings, role).start(node_command(settings, role))
    if units := settings.units:
        units.write_boot(boot_command(settings))
        units.enable()
    for role in roles(settings):
        with show.step(role) as step:
            identity = _healthy(settings, role)
            step.detail = f"pid {identity.pid}{', runs already' if ran[role] else ''}"
    if settings.kubeconfig:
        with show.step("cluster") as step:
            step.detail = asyncio.run(until_joined(settings, JOINED_WITHIN))


def _refuse_taken_ports(settings: Settings, role: str) -> None:
    port = healthz_port(settings, role)
    if port and not is_free(port):
        raise UpFailed(f"port {port} on loopback is taken by another program: choose another with --healthz-port")


def _healthy(settings: Settings, role: str) -> Identity:
    """Wait until a process works; raises UpFailed with the end of its log if it does not."""
    until = time.monotonic() + HEALTHY_WITHIN.total_seconds()
    answer = ""
    while identity := node_process(settings, role).running():
        try:
            if _works(settings, role, identity):
                return identity
        except OSError as error:
            answer = str(error)
        if time.monotonic() > until:
            where = log_of(settings, role).where
            raise UpFailed(f"the {role} is not healthy after {HEALTHY_WITHIN.seconds} s ({answer}); see {where}")
        time.sleep(BETWEEN_LOOKS)
    raise _ended(settings, role)


def _works(settings: Settings, role: str, process: Identity) -> bool:
    """Ask a process on its healthz, or on its own socket if it has none; raises OSError for an error. The cluster tells of the node's."""
    if port := healthz_port(settings, role):
        return _answers(port)
    if role not in {"worker", "poller"}:
        return True
    state = asyncio.run(process_state(settings.root_dir / STATE_DIRECTORY, role, ASKED_WITHIN))
    return state is not None and state.ready and state.pid == process.pid


def _answers(port: int) -> bool:
    """Check a healthz; raises OSError if it reports an error, or does not answer."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=ASKED_WITHIN.total_seconds()) as answer:
        return bool(answer.status == HTTPStatus.OK)


def _ended(settings: Settings, role: str) -> UpFailed:
    return UpFailed(f"the {role} has ended; {log_of(settings, role).ending()}")


def _run_pods(settings: Settings, manifests: Sequence[Path], show: Progress) -> dict[Path, str]:
    """Put the manifests into the folder and wait for its pods; returns what does not run, by manifest."""
    with show.step("manifests") as step:
        wanted = place_manifests(settings, manifests)
        step.detail = ", ".join(one.path.name for one in wanted) or f"none: put some into {settings.manifests}"
    if not wanted:
        return {}
    with show.step("pods") as step, CriClient(settings.runtime_socket) as runtime:
        for pods in _looks(settings, wanted, runtime):
            step.doing(f"{len(pods.running)} of {len(wanted)} run")
        words = [f"{len(pods.running)} running"]
        words += [f"{len(pods.finished)} finished"] * bool(pods.finished)
        words += [f"{len(pods.missing)} not running"] * bool(pods.missing)
        step.detail = ", ".join(words)
    return {path: printable(words) for path, words in pods.missing.items()}


def place_manifests(settings: Settings, given: Sequence[Path]) -> list[pods_watch.Manifest]:
    """Put kept and given manifests into the folder, all or none, and onto the disk; returns all files of the folder.

    Raises UpFailed for a given file that cannot be read or is no manifest.
    """
    node = NodeOfManifests(node_name(settings.hostname_override or None), cluster=bool(settings.kubeconfig))
    contents = {source: _judged(source, node) for source in given}
    if settings.kept_manifests.is_dir():
        for kept in settings.kept_manifests.iterdir():
            if not (settings.manifests / kept.name).exists():  # a file that was put there in the meantime is newer
                kept.replace(settings.manifests / kept.name)
        shutil.rmtree(settings.kept_manifests)
    before = {snapshot.uid for snapshot in read_snapshots(settings.root_dir)}
    changed = set()
    for source, content in contents.items():
        target = settings.manifests / source.name
        if not target.exists() or target.read_bytes() != content:
            write_atomically(target, content)
            changed.add(target)
    sync_folder(settings.manifests)
    listed = sorted(path for path in settings.manifests.iterdir() if path.is_file() and not path.name.startswith("."))
    return [pods_watch.Manifest(path, before if path in changed else ()) for path in listed]


def _judged(source: Path, node: NodeOfManifests) -> bytes:
    """Read a manifest as the poller will; an invalid one is not put into the folder."""
    if source.exists() and not source.is_file():
        raise UpFailed(f"manifest {source} cannot be used: it is no file")
    try:
        content = source.read_bytes()
    except OSError as error:
        raise UpFailed(f"manifest {source} cannot be used: {error.strerror}") from error
    match read_manifest(source, content, node, datetime.now(UTC)):
        case Refused() as refused:
            raise UpFailed(f"manifest {source} cannot be used: {refused.message}")
        case _:
            return content


def _looks(settings: Settings, wanted: list[pods_watch.Manifest], runtime: CriClient) -> Iterator[pods_watch.Pods]:
    """Check until each pod runs or has shown for a while why not; raises UpFailed if a process ends."""
    until = time.monotonic() + PODS_WITHIN.total_seconds()
    since: dict[Path, float] = {}
    while True:
        pods = pods_watch.look(settings.root_dir, wanted, runtime)
        yield pods
        now = time.monotonic()
        since = {path: since.get(path, now) for path in (*pods.failing, *pods.refused)}
        shown_long_enough = all(now - first >= REPORTED_AFTER.total_seconds() for first in since.values())
        if (shown_long_enough and not pods.waiting) or now > until:
            return
        for role in roles(settings):
            if not node_process(settings, role).running():
                raise _ended(settings, role)
        time.sleep(BETWEEN_LOOKS)
