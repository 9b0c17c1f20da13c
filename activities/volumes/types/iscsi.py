"""iscsi: a disk of an iSCSI target, attached by the node's iscsiadm (pkg/volume/iscsi).

The node logs in to each portal without a session and scans for this one LUN, never for all of them. A portal that does
not answer is skipped if another one answers. The session ends with the last disk that uses it. Passwords (chapAuth…)
are refused: iscsiadm takes them only on its command line, where every process of the node can read them.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from activities.execution.programs import Ended, ProgramMissing, ProgramTimedOut, run
from activities.volumes.disks.attached_disk import AttachedDisk, Disk, path_component
from activities.volumes.disks.scsi import TREE, ScsiTree, flush
from activities.volumes.plugin.persistent_type import PersistentType
from activities.volumes.plugin.table import plugin_of
from activities.volumes.plugin.volume_type import PodVolume, VolumeFailed, VolumeType

_PORT: Final = ":3260"
_SESSION_EXISTS: Final = 15
_NOTHING_THERE: Final = (2, 21)
"""Exit codes of iscsiadm: no such session; no such record."""
_NO_MODULE: Final = "Could not insert module"
_LOAD_IT: Final = "the worker's unit may load no kernel modules: run `modprobe iscsi_tcp`, and write iscsi_tcp to a file in /etc/modules-load.d for the next boot"
_ASK_WITHIN: Final = 60.0
_DEVICE_WITHIN: Final = 30.0
_LOOK_AGAIN: Final = 0.1


class ToolMissing(VolumeFailed):
    """The node has no iscsiadm."""


class Iscsi:
    """Disks of iSCSI targets."""

    plugin = plugin_of("iscsi")

    def __init__(self, tree: ScsiTree = TREE) -> None:
        self._tree = tree

    def read(self, source: Mapping[str, Any], name: str) -> Disk:
        """Read portals, target and LUN; a volume with an initiator name gets an interface of its own."""
        portal, iqn, lun = source.get("targetPortal"), source.get("iqn"), source.get("lun", 0)
        if source.get("chapAuthDiscovery") or source.get("chapAuthSession"):
            raise VolumeFailed("iscsi: CHAP is not supported: iscsiadm shows passwords to every process of the node")
        if not (isinstance(portal, str) and portal and isinstance(iqn, str) and iqn and isinstance(lun, int)):
            raise VolumeFailed(f"iscsi: volume {name} needs a targetPortal, an iqn and a lun")
        portals = [with_port(str(one)) for one in (portal, *(source.get("portals") or ()))]
        made_of, initiator = str(source.get("iscsiInterface") or "default"), str(source.get("initiatorName") or "")
        interface = f"{portals[0]}:{name}" if initiator else made_of
        disk = {"portals": list(dict.fromkeys(portals)), "iqn": iqn, "lun": lun, "interface": interface}
        return disk | ({"made_of": made_of, "initiator": initiator} if initiator else {})

    def volume_name(self, source: Mapping[str, Any]) -> str:
        """`<portal>:<iqn>:<lun>`, the portal as it is written."""
        return f"{source['targetPortal']}:{source['iqn']}:{source.get('lun', 0)}"

    def place(self, disk: Disk) -> tuple[str, ...]:
        """`iface-<interface>/<portal>-<iqn>-lun-<lun>`."""
        return path_component(f"iface-{disk['interface']}"), path_component(f"{_target(disk)}{disk['lun']}")

    async def attach(self, volume: PodVolume, disk: Disk) -> Path:
        """Log in to portals without a session, and wait for the disk's device."""
        base = disk.get("made_of") or disk["interface"]
        shown = await _ask("-m", "iface", "-I", base, "-o", "show")
        if shown.code != 0:
            raise VolumeFailed(f"iscsi: could not read iface {base} error: {shown.output}")
        settings = _settings(shown.output)
        if "initiator" in disk:
            await _make_interface(disk, settings)
        async with volume.services.locks.hold(f"iscsi/{disk['iqn']}"):
            faults, found = [], []
            for portal in disk["portals"]:
                try:
                    found.append(await self._device(disk, portal, settings.get("iface.transport_name", "tcp")))
                except (VolumeFailed, OSError) as error:
                    faults.append(str(error))
        if not found:
            raise VolumeFailed(f"failed to get any path for iscsi disk, last err seen:\n{faults[-1]}")
        return await asyncio.to_thread(self._tree.best_of, found)

    async def detach(self, volume: PodVolume, disk: Disk) -> None:
        """Remove the disk from the kernel, and log out if it was the last one of its target here."""
        folder = volume.services.settings.root_dir / "plugins" / self.plugin
        for link in await asyncio.to_thread(self._links, disk):
            device = await asyncio.to_thread(link.resolve)
            if multipath := await asyncio.to_thread(self._tree.multipath_of, device):
                await flush(multipath)
            await asyncio.to_thread(self._tree.forget, device)
        async with volume.services.locks.hold(f"iscsi/{disk['iqn']}"):
            if not await asyncio.to_thread(_has_others, folder, disk):
                try:
                    await self._log_out(disk)
                except ToolMissing:  # without it nobody has logged in here, unless it was removed since
                    if await asyncio.to_thread(self._sessions, disk["iqn"]):
                        raise

    async def _device(self, disk: Disk, portal: str, transport: str) -> Path:
        hosts = await asyncio.to_thread(self._sessions, disk["iqn"])
        if portal not in hosts:
            await _log_in(disk, portal)
            hosts = await asyncio.to_thread(self._sessions, disk["iqn"])
        if portal not in hosts:
            raise VolumeFailed(f"could not get SCSI host number for portal {portal} after logging in")
        await asyncio.to_thread(self._tree.scan, hosts[portal], disk["lun"])
        until = monotonic() + _DEVICE_WITHIN
        while monotonic() < until:
            if found := await asyncio.to_thread(self._link, disk, portal, transport):
                return found
            await asyncio.sleep(_LOOK_AGAIN)
        raise VolumeFailed(f"Timed out waiting for device of {portal} {disk['iqn']} after {_DEVICE_WITHIN:.0f}s")

    def _links(self, disk: Disk) -> list[Path]:
        kinds = [(portal, transport) for portal in disk["portals"] for transport in ("tcp", "")]
        return [one for kind in kinds if (one := self._link(disk, *kind))]

    def _link(self, disk: Disk, portal: str, transport: str) -> Path | None:
        """Find the disk's link for one portal; with an adapter's own transport its name begins with the adapter."""
        name = f"ip-{portal.replace('[', '').replace(']', '')}-iscsi-{disk['iqn']}-lun-{disk['lun']}"
        for link in self._tree.links("by-path"):
            if link.name == name if transport == "tcp" else link.name.startswith("pci-") and link.name.endswith(name):
                return link
        return None

    def _sessions(self, iqn: str) -> dict[str, int]:
        """Map the portals of a target with a session to their SCSI hosts (GetISCSIPortalHostMapForTarget)."""
        found: dict[str, int] = {}
        for file in (self._tree.sys / "class/iscsi_host").glob(
            "host*/device/session*/iscsi_session/session*/targetname"
        ):
            session = file.parents[2]
            with contextlib.suppress(OSError):
                if file.read_text().strip() != iqn:
                    continue
                host = int(session.parents[1].name.removeprefix("host"))
                for connection in session.glob("connection*/iscsi_connection/connection*"):
                    for address, port in (("address", "port"), ("persistent_address", "persistent_port")):
                        host_port = [(connection / one).read_text().strip() for one in (address, port)]
                        found[f"[{host_port[0]}]:{host_port[1]}" if ":" in host_port[0] else ":".join(host_port)] = host
        return found

    async def _log_out(self, disk: Disk) -> None:
        for portal in disk["portals"]:
            node = ("-m", "node", "-p", portal, "-T", disk["iqn"])
            for what in (("--logout",), ("-o", "delete")):
                ended = await _ask(*node, *what, "-I", disk["interface"])
                if ended.code not in (0, *_NOTHING_THERE):
                    raise VolumeFailed(f"iscsi: failed to detach disk Error: {ended.output}")
        if "initiator" in disk:
            await _ask("-m", "iface", "-I", disk["interface"], "-o", "delete")


def with_port(portal: str) -> str:
    """Add iSCSI's port to a portal without one (portalMounter)."""
    return portal if ":" in portal else f"{portal}{_PORT}"


async def _log_in(disk: Disk, portal: str) -> None:
    """Discover a target at a portal and log in, with startup set to manual so that a booting node does not wait for it (AttachDisk)."""
    found = ("-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", disk["interface"])
    node = ("-m", "node", "-p", portal, "-T", disk["iqn"], "-I", disk["interface"])
    await _ask(*found, "-o", "new")
    asked = await _ask(*found, "--discover")
    if asked.code != 0:
        await _ask(*found, "-o", "delete")
        raise VolumeFailed(
            f"iscsi: failed to sendtargets to portal {portal} output: {asked.output}, err {asked.outcome}"
        )
    await _ask(
        *node, "-o", "update", "-n", "node.session.scan", "-v", "manual"
    )  # an old iscsiadm does not know this key
    asked = await _ask(*node, "--login")
    if asked.code not in (0, _SESSION_EXISTS):
        await _ask(*node, "-o", "delete")
        raise VolumeFailed(f"iscsi: failed to attach disk: Error: {asked.output} ({asked.outcome})")
    await _ask(*node, "-o", "update", "-n", "node.startup", "-v", "manual")


async def _make_interface(disk: Disk, settings: Mapping[str, str]) -> None:
    """Clone an interface under the volume's own name, with its initiator (cloneIface)."""
    own = ("-m", "iface", "-I", disk["interface"])
    made = await _ask(*own, "-o", "new")
    if made.code not in (0, _SESSION_EXISTS):
        raise VolumeFailed(f"iscsi: failed to create new iface: {made.output} ({made.outcome})")
    wanted = {**settings, "iface.initiatorname": disk["initiator"]}
    for name in sorted(wanted.keys() - {"iface.iscsi_ifacename"}):
        updated = await _ask(*own, "-o", "update", "-n", name, "-v", wanted[name])
        if updated.code != 0:
            await _ask(*own, "-o", "delete")
            raise VolumeFailed(f"iscsi: failed to update iface records: {updated.output} ({updated.outcome})")


def _settings(shown: str) -> dict[str, str]:
    """Parse the non-empty settings that iscsiadm shows of an interface."""
    lines = (line.split() for line in shown.splitlines() if line.startswith("iface."))
    return {words[0]: words[2] for words in lines if len(words) == 3 and words[1] == "=" and words[2] != "<empty>"}


def _target(disk: Disk) -> str:
    return f"{disk['portals'][0]}-{disk['iqn']}-lun-"


def _has_others(folder: Path, disk: Disk) -> bool:
    """Report whether another disk of the target is in use, mounted or as a device (isSessionBusy)."""
    parts = [*folder.glob("iface-*/*"), *folder.glob("volumeDevices/iface-*/*")]
    return any(one.name.startswith(_target(disk)) for one in parts)


async def _ask(*words: str) -> Ended:
    try:
        ended = await run(("iscsiadm", *words), _ASK_WITHIN)
    except ProgramMissing as error:
        raise ToolMissing(str(error)) from error
    except ProgramTimedOut as error:
        raise VolumeFailed(str(error)) from error
    if ended.code and _NO_MODULE in ended.output:
        raise VolumeFailed(f"iscsi: {ended.output.strip()}\n{_LOAD_IT}")
    return ended


_DISK: Final = AttachedDisk(Iscsi())
TYPE: Final[VolumeType] = _DISK
PERSISTENT: Final[PersistentType] = _DISK
