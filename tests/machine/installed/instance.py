"""A booted machine that sets itself up as an instance of a cloud does: cloud-init reads user data from a NoCloud disk at its boot.

It reaches no package mirror but the disk with Debian's packages (`debian_packages`), and has no container runtime yet.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.machine.installed.releases import OURS
from tests.machine.machine import Machine

BOOT_SECONDS: Final = 1800.0
"""A boot ends when cloud-init has run everything."""
APT: Final = "DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Options::=--force-unsafe-io"
RUNTIME: Final = "containerd runc containernetworking-plugins nftables curl"
"""What the examples install, and the guest has."""
BARE: Final = f"""
systemctl stop containerd
{APT} purge {RUNTIME} && rm -rf /var/lib/containerd /run/containerd /etc/containerd
"""
PREPARED: Final = f"""
rm -rf /etc/apt/sources.list.d/* && echo 'deb [trusted=yes] file:/opt/tempolet ./' > /etc/apt/sources.list
{APT} update && {APT} install --no-install-recommends cloud-init sudo
"""
CLOUDS: Final = """\
network: {config: disabled}
apt: {preserve_sources_list: true}
locale: false
ssh_genkeytypes: []
"""
"""What a cloud sets in its images: here, that network and mirror are as they should be."""


@dataclass
class Instance:
    """The machine; on, and no instance yet."""

    machine: Machine
    seed: Path
    """The content of the disk `cidata`."""

    def prepare(self) -> None:
        """Install cloud-init, and remove what the examples install."""
        self.machine.run(PREPARED, BOOT_SECONDS)
        self.machine.run(BARE, BOOT_SECONDS)
        self.machine.put(CLOUDS.encode(), "/etc/cloud/cloud.cfg.d/99-cloud.cfg")

    def start(self, name: str, user_data: str) -> None:
        """Boot as a new instance, and wait until cloud-init has done all that the user data says, without an error."""
        self.machine.run("cloud-init clean --logs")
        self.machine.power_off()
        (self.seed / "meta-data").write_text(json.dumps({"instance-id": name, "local-hostname": "machine"}))
        (self.seed / "user-data").write_text(user_data)
        self.machine.boot(BOOT_SECONDS)
        ended = self.machine.run("cloud-init status --wait --long", BOOT_SECONDS, check=False)
        said = self.machine.run("tail -n 60 /var/log/cloud-init-output.log", check=False).stdout
        assert ended.code == 0, f"{ended.stdout}\n{ended.stderr}\n{said}"
        assert self.machine.run("cloud-id").stdout.strip() == "nocloud"
        assert self.machine.run("cloud-init query instance-id").stdout.strip() == name

    def clear(self) -> None:
        """Remove the package with its state and the container runtime, so that the next example finds a bare machine."""
        self.machine.run(f"{APT} purge tempolet", BOOT_SECONDS)
        assert self.machine.run(OURS, check=False).stdout == ""
        self.machine.run(BARE, BOOT_SECONDS)
