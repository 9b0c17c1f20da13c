"""`tempolet down`: stops pods in order, then everything that `up` started, and leaves nothing in the kernel.

Manifests are set aside (the next `up` restores them); the poller requests the pods' deletion and the worker stops them
within their grace period. What is left then is removed by force, and reported. Outside the node's two folders only what
carries its mark is touched (`machine/owner_marks.py`), so mistyped folders end nobody else's pods.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activities.files.file_trees import StillMounted, remove_tree
from activities.machine.cgroup_names import unit
from activities.machine.cgroups import Cgroups
from worker.daemon.config import STATE_DIRECTORY
from worker.host.shutdown.drop_in import remove_drop_in
from worker.machine.cgroup_driver import recorded_names
from worker.standalone import pods_watch
from worker.standalone.cri_client import CriClient
from worker.standalone.machine import leftovers
from worker.standalone.machine.links import LINKS
from worker.standalone.machine.owner_marks import TakenByAnother, refuse_state_of_another
from worker.standalone.machine.units import NodeUnits
from worker.standalone.progress import Progress
from worker.standalone.settings import RUN_VARIABLE, STATE_VARIABLE, Settings, recorded

BEYOND_GRACE: Final = 30.0  # seconds: many pods stop four at a time
BETWEEN_LOOKS: Final = 0.05
STOP_WITHIN: Final = 20.0  # seconds; the worker lets running activities end


class DownFailed(Exception):
    """Something of the node could not be removed; the message says what."""


def down(settings: Settings, progress: Progress | None = None, *, purge: bool = False) -> list[str]:
    """Stop a node; returns what had to be removed by force. With `purge` its state is removed too.

    Raises DownFailed if something of it is left.
    """
    show = progress or Progress()
    if os.geteuid() != 0:
        raise DownFailed("`tempolet down` needs root, as `tempolet up` does")
    known = recorded(settings.run_dir) or _recorded_for_boot(settings)
    here = known or settings
    show.say(f"node at {here.run_dir}, state in {here.state_dir}" if known else _not_running(settings))
    _refuse_state_of_another(here)
    if not known:
        NodeUnits(here.run_dir, here.state_dir).remove()  # of a node whose folders somebody has removed
    had_state = here.state_dir.is_dir()
    forced = _end_pods(here, show)
    ending = [("node", here.node)] if here.kubeconfig else []
    ending += [("poller", here.poller), ("worker", here.worker), ("Temporal", here.temporal.process)]
    for name, process in ending:
        with show.step(name) as step:
            was_running = process.running()
            willing = process.stop(STOP_WITHIN)
            step.detail = ("stopped" if willing else "killed") if was_running else "did not run"
            forced += [f"{name} had to be killed"] if not willing else []
    with show.step("containerd") as step:
        was_running = here.containerd.process.running()
        forced += _end_runtime(here)
        step.detail = "stopped" if was_running else "did not run"
        if here.container_runtime_endpoint:
            step.detail = "yours, left as it is"
    if units := here.units:
        with show.step("units") as step:
            units.remove()
            here.record_for_boot.unlink(missing_ok=True)
            step.detail = "disabled and removed"
    stays = [why] if purge and (why := here.temporal_user.remove()) else []
    _remove_files(here, purge=purge)
    for what in forced:
        show.say(f"by force: {what}")
    left = [*what_is_left(here), *stays]
    if left:
        raise DownFailed(f"not removed: {'; '.join(left)}")
    state = _state_words(here.state_dir, purge=purge) if had_state else f"no state was in {here.state_dir}"
    show.say(f"down in {show.total():.1f} s, {state}")
    return forced


def _recorded_for_boot(settings: Settings) -> Settings | None:
    """Read the settings that a boot uses, if they are of this run folder, which it may have failed to make again."""
    found = recorded(settings.state_dir)
    if found is None or found.run_dir != settings.run_dir:
        return None
    found.keep_for_this_boot()
    found.refer_to_units()
    return found


def _refuse_state_of_another(settings: Settings) -> None:
    """Raise DownFailed if the state folder is another living node's: its manifests would be set aside."""
    try:
        refuse_state_of_another(settings.state_dir, settings.containerd.owner)
    except TakenByAnother as error:
        raise DownFailed(str(error)) from error


def _not_running(settings: Settings) -> str:
    return (
        f"no node known at {settings.run_dir} (another one's folder: --run-dir, {RUN_VARIABLE}); "
        f"looking for leftovers there and in {settings.state_dir} (--state-dir, {STATE_VARIABLE})"
    )


def _state_words(state_dir: Path, *, purge: bool) -> str:
    if not purge:
        return f"state kept in {state_dir}"
    if not state_dir.is_dir():
        return f"{state_dir} removed with all of the state"
    others = ", ".join(sorted(path.name for path in state_dir.iterdir())) or "the folder itself, which is in use"
    return f"state removed, {state_dir} still has files that are not the node's: {others}"


def what_is_left(settings: Settings) -> list[str]:
    """List everything of the node that is still in the kernel: processes, mounts, bridge, cgroups."""
    containerd = settings.containerd
    left = [f"process {pid}" for pid in leftovers.shims_of(containerd.socket)]
    left += [f"mount {point}" for point in leftovers.mounts_below(settings.state_dir, settings.run_dir)]
    bridge = LINKS / settings.network.bridge
    if not settings.container_runtime_endpoint and bridge.exists() and containerd.owns_bridge():
        left.append(f"bridge {settings.network.bridge}")
    if containerd.owns_cgroup():
        left += [f"process {pid}" for pid in leftovers.processes_in_cgroup(settings.cgroup)]
        left += [f"cgroup {path}" for path in leftovers.cgroup_directories(settings.cgroup)]
    return left


def _end_pods(settings: Settings, show: Progress) -> list[str]:
    """Set the manifests aside and wait until their pods are gone; returns what is left."""
    with show.step("pods") as step:
        files = _put_aside(settings)
        grace = pods_watch.longest_grace(files)
        agents = (settings.worker, settings.poller, settings.temporal.process)
        with _runtime(settings) as runtime:
            if runtime is None:
                step.detail = "containerd does not run"
                return []
            shared = bool(settings.container_runtime_endpoint)
            until = time.monotonic() + grace + BEYOND_GRACE
            while left := pods_watch.pods_left(settings.root_dir, runtime, shared=shared):
                dead = not all(process.running() for process in agents)
                if dead or time.monotonic() > until:
                    why = "worker, poller or Temporal does not run" if dead else "not gone within the grace period"
                    step.detail = f"{len(left)} left: {why}"
                    return [f"pod {pod}: {why}" for pod in left]
                step.doing(f"{len(left)} left")
                time.sleep(BETWEEN_LOOKS)
        step.detail = "gone"
    return []


def _put_aside(settings: Settings) -> list[Path]:
    if not settings.manifests.is_dir():
        return []
    settings.kept_manifests.mkdir(exist_ok=True, mode=0o700)
    kept = []
    for path in sorted(settings.manifests.iterdir()):
        target = settings.kept_manifests / path.name
        path.replace(target)
        kept.append(target)
    return kept


@contextlib.contextmanager
def _runtime(settings: Settings) -> Iterator[CriClient | None]:
    """Open a CRI client; None if no runtime answers."""
    with CriClient(settings.runtime_socket) as runtime:
        yield runtime if runtime.answers() else None


def _end_runtime(settings: Settings) -> list[str]:
    if not settings.container_runtime_endpoint:
        forced = settings.containerd.stop()
    else:
        forced = []
        with _runtime(settings) as runtime:
            ours = pods_watch.uids_of_node(settings.root_dir)
            if runtime and ours:
                stuck = runtime.remove_sandboxes(runtime.sandboxes_of(ours))
                forced = [f"sandbox {one}: {error}" for one, error in stuck.items()]
        if settings.containerd.owns_cgroup():
            forced += _end_slices(settings)
            leftovers.kill_all(leftovers.processes_in_cgroup(settings.cgroup))
            forced += [f"cgroup {stuck}" for stuck in leftovers.remove_cgroup(settings.cgroup)]
    leftovers.unmount_below(settings.root_dir)
    _remove_folder(settings.root_dir / "pods")
    return forced


def _end_slices(settings: Settings) -> list[str]:
    """Stop the slices of this node's tiers, if a given runtime uses the systemd cgroup driver."""
    names = recorded_names(settings.root_dir / STATE_DIRECTORY, settings.cgroup)
    if names.systemd:
        try:
            cgroups = Cgroups(names)
            for uid in cgroups.pods_left():  # of which the worker did not come to remove the last
                cgroups.remove_pod(uid)
            cgroups.remove_tiers()
        except OSError as error:
            return [f"slice {unit(names.path())}: {error}"]
    return []


def _remove_files(settings: Settings, *, purge: bool) -> None:
    """Remove the run folder, and with `purge` the state, by the names that `up` uses: a folder may hold other files."""
    folders: list[tuple[Path, tuple[str, ...]]] = [
        (
            settings.run_dir,
            ("config", "settings.json", "boot-id", "containerd.toml", "cni", "addresses", "containerd", "temporal"),
        )
    ]
    if purge:
        with contextlib.suppress(OSError):
            remove_drop_in()
        state = ("node", "manifests", "manifests.down", "objects", "log", "containerd", "certs.d", "parts", "temporal")
        files = (
            "run-folder",
            "payload.keys",
            "payload.keys.ids",
            "codec.token",
            "temporal.db",
            "temporal.db-wal",
            "temporal.db-shm",
        )
        folders.append((settings.state_dir, (*state, *files)))
    for folder, names in folders:
        for name in names:
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                _remove_folder(path)
            else:
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_folder(folder: Path) -> None:
    """Remove a folder unless something is mounted below, perhaps a volume, which is reported later."""
    with contextlib.suppress(OSError, StillMounted):
        remove_tree(folder)
