"""`tempolet leave`: undoes what join did, in order: services, sandboxes, cgroups, mounts, state, files, record.

Every step is repeated by another run until the record is gone, which is the last one. A file that was edited since join wrote it is kept.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from activities.files import mounts
from activities.files.file_trees import StillMounted, remove_tree
from activities.machine.cgroups import Cgroups
from proto.temporal.names import NAMESPACE
from worker.daemon.config import STATE_DIRECTORY
from worker.documents.yaml_document import DocumentRefused, read_document
from worker.host.shutdown.drop_in import remove_drop_in
from worker.joining.installing import forget, read, remove_folders
from worker.joining.places import Places
from worker.joining.record import Record
from worker.joining.refusal import JoinRefused
from worker.joining.systemd import STOPPED_IN, Systemd, unit_of
from worker.machine.cgroup_driver import recorded_names
from worker.standalone.cri_client import CriClient

STAGED: Final = "plugins/kubernetes.io"
"""Below --root-dir: where CSI and block volumes are staged."""
KILLED_WITHIN: Final = 10.0
"""Seconds until the kernel lets go of the cgroup of processes that were killed."""
_PAUSE: Final = 0.1

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Leaving:
    """One run of leave."""

    places: Places
    say: Say
    confirm: Callable[[], bool]
    purge: bool = False
    """Also the keys of the histories, edited files and the pods' logs."""

    def run(self) -> bool:
        """Leave; returns False if it was not confirmed. Raises JoinRefused and OSError."""
        if os.geteuid() != 0:
            raise JoinRefused("nothing was changed: it needs root: run it with sudo")
        record = Record.read(self.places.record)
        if record.is_empty:
            self.say(f"nothing to do: no {self.places.record}, so `tempolet join` made nothing here")
            return True
        self._announce(record)
        if not self.confirm():
            return False
        systemd = Systemd(self.places.systemctl)
        self._stop(systemd)
        uids = self._pods()
        self._end_sandboxes(record, uids)
        self._remove_cgroups(uids)
        self._unmount(record)
        if self.purge:
            self._remove_logs(uids)
        self._remove_state(record)
        self._remove_files(record)
        systemd.reload()
        self._forget_join(record)
        self.say(f"left. Now: kubectl delete node {record.node}")
        self.say(f"and its histories: {_terminate(record)}")
        return True

    def _announce(self, record: Record) -> None:
        server = record.server or "the cluster that kubeadm joined"
        self.say(f"node {record.node} of {server}: stops its services, ends its pods, removes what join made")
        drain = f"kubectl drain {record.node} --ignore-daemonsets --delete-emptydir-data"
        self.say(f"before, where kubectl has an administrator's rights: {drain}")

    def _stop(self, systemd: Systemd) -> None:
        for role in STOPPED_IN:
            unit = systemd.unit(unit_of(role))
            if unit.loaded in ("not-found", "") or (not unit.runs and unit.enabled != "enabled"):
                continue
            systemd.disable(unit_of(role))
            self.say(f"stopped and disabled {unit_of(role)}")

    def _pods(self) -> list[str]:
        """List the UIDs of the node's pods."""
        folder = self.places.root_dir / "pods"
        return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []

    def _end_sandboxes(self, record: Record, uids: list[str]) -> None:
        """Stop and remove the sandboxes of this node's pods; raises JoinRefused if one stays."""
        if not uids:
            return
        socket = Path(record.endpoint.removeprefix("unix://"))
        what_now = "start containerd, and run leave again"
        try:
            with CriClient(socket) as runtime:
                ours = runtime.sandboxes_of(uids)
                stuck = runtime.remove_sandboxes(ours)
        except grpc.RpcError as error:
            why = error.details() if isinstance(error, grpc.Call) else error
            raise JoinRefused(f"{record.endpoint} does not answer, so the pods run on: {why}; {what_now}") from error
        if stuck:
            words = "; ".join(f"{one}: {why}" for one, why in stuck.items())
            raise JoinRefused(f"these sandboxes cannot be ended: {words}; run leave again")
        if ours:
            self.say(f"ended {len(ours)} pods")

    def _remove_cgroups(self, uids: list[str]) -> None:
        """Remove the cgroups of the node's pods, and those above them if nothing else is there; raises JoinRefused, OSError."""
        cgroups = Cgroups(recorded_names(self.places.root_dir / STATE_DIRECTORY, self._cgroup_root()))
        until = time.monotonic() + KILLED_WITHIN
        for uid in uids:
            while left := _removed(cgroups, uid):
                if time.monotonic() > until:
                    raise JoinRefused(
                        f"{left[0]} is still in use after SIGKILL: see its cgroup.procs, and run leave again"
                    )
                time.sleep(_PAUSE)
        cgroups.remove_tiers()

    def _cgroup_root(self) -> str:
        for one in (self.places.kubelet_configuration, self.places.kubeadms_configuration):
            with contextlib.suppress(DocumentRefused):  # the other is used, or it was removed or edited since
                return str(read_document(one).content.get("cgroupRoot") or "")
        return ""

    def _unmount(self, record: Record) -> None:
        """Unmount the pods' volumes; raises JoinRefused if one stays, for removing its folder would remove its files."""
        points = list(self._points(record))
        for point in points:
            try:
                mounts.unmount(Path(point), detach=True)
            except OSError as error:
                raise JoinRefused(
                    f"{point} cannot be unmounted: {error.strerror}; unmount it, and run leave again"
                ) from error
        if left := list(self._points(record)):
            raise JoinRefused(f"still mounted: {', '.join(left)}; unmount them, and run leave again")
        if points:
            self.say(f"unmounted {len(points)} volumes")

    def _points(self, record: Record) -> Iterator[str]:
        for folder in (*self._state(record), self.places.root_dir / STAGED):
            if folder.is_dir() and not folder.is_symlink():
                yield from mounts.mounts_below(folder)

    def _state(self, record: Record) -> list[Path]:
        """List what is in --root-dir only since the join, and the pods."""
        root = self.places.root_dir
        if not root.is_dir():
            return []
        return sorted(one for one in root.iterdir() if one.name not in record.found or one.name == "pods")

    def _remove_state(self, record: Record) -> None:
        kept = self.places.payload_keys
        keep = kept.exists() and not self.purge
        for one in self._state(record):
            if one == kept.parent and keep:
                for inner in one.iterdir():
                    if inner != kept:
                        _remove(inner)
            else:
                _remove(one)
        if keep:
            self.say(f"kept {kept}: with it this node's histories can be read; remove it when you need them no more")

    def _remove_logs(self, uids: list[str]) -> None:
        """Remove the logs of the pods, and the links to them: `<namespace>_<name>_<uid>`."""
        folder = self.places.pod_logs
        gone = [one for one in folder.iterdir() if one.name.rpartition("_")[2] in uids] if folder.is_dir() else []
        for one in gone:
            _remove(one)
        links = self.places.container_logs
        for link in list(links.iterdir()) if links.is_dir() else ():
            if link.is_symlink() and any(one in link.readlink().parents for one in gone):
                link.unlink()

    def _remove_files(self, record: Record) -> None:
        for name, written in list(record.files.items()):
            path = Path(name)
            found = read(path)
            if found is not None and not self.purge and not record.wrote(path, found):
                self.say(f"kept {path}, which was edited since join wrote it ({written[:12]})")
                continue
            forget(path, record)
        for name in record.later:
            Path(name).unlink(missing_ok=True)
        link = self.places.link
        if record.link and link.is_symlink():
            link.unlink()

    def _forget_join(self, record: Record) -> None:
        with contextlib.suppress(OSError):
            remove_drop_in()
        record.path.unlink()
        remove_folders(record)


def _removed(cgroups: Cgroups, uid: str) -> list[Path]:
    """Try to remove a pod's cgroup; returns the folders that are left."""
    try:
        return cgroups.remove_pod(uid)
    except ValueError:  # with this driver no cgroup can have the pod's name
        return []


def _remove(path: Path) -> None:
    """Remove a file or a tree that pods have written to; raises JoinRefused if something was mounted there meanwhile."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    try:
        remove_tree(path)
    except StillMounted as error:
        raise JoinRefused(f"{error.mount} was mounted meanwhile: unmount it, and run leave again") from error


def _terminate(record: Record) -> str:
    query = f"PodNode = '{record.node}' AND ExecutionStatus = 'Running'"
    namespace = record.namespace or NAMESPACE
    return f'temporal workflow terminate --namespace {namespace} --query "{query}" --reason left --yes'
