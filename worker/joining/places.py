"""Where join and leave read and write: every path and program, so that a test gives them a root of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Places:
    """The machine's paths; those of a real one by default."""

    kubernetes: Path = Path("/etc/kubernetes")
    own: Path = Path("/etc/tempolet")
    units: Path = Path("/etc/systemd/system")
    link: Path = Path("/usr/local/bin/tempolet")
    """What the units start."""
    root_dir: Path = Path("/var/lib/kubelet")
    pod_logs: Path = Path("/var/log/pods")
    container_logs: Path = Path("/var/log/containers")
    systemd: Path = Path("/run/systemd/system")
    """The folder by which systemd shows that it is PID 1: sd_booted(3)."""
    systemctl: str = "systemctl"

    @classmethod
    def below(cls, root: Path, systemctl: str) -> Self:
        """Return the same paths below another root."""
        moved = {name: root / str(getattr(cls(), name))[1:] for name in cls.__slots__ if name != "systemctl"}
        return cls(**moved, systemctl=systemctl)

    @property
    def authority(self) -> Path:
        """The cluster's CA; kubeadm's configuration names it as clientCAFile."""
        return self.kubernetes / "pki" / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """The node's own kubeconfig, which `tempolet node` writes."""
        return self.kubernetes / "kubelet.conf"

    @property
    def bootstrap_kubeconfig(self) -> Path:
        """The kubeconfig with the token; removed when the node is Ready."""
        return self.kubernetes / "bootstrap-kubelet.conf"

    @property
    def kubelet_unit(self) -> Path:
        """The unit that kubeadm starts: a link to ours where `kubeadm join` joins."""
        return self.units / "kubelet.service"

    @property
    def kubeadm_drop_in(self) -> Path:
        """What lets our units read kubeadm's files. It has the name of kubeadm's own for the kubelet's unit, which it hides."""
        return self.units / "tempolet-.service.d" / "10-kubeadm.conf"

    @property
    def kubeadms_configuration(self) -> Path:
        """KubeletConfiguration of the services where `kubeadm join` joins."""
        return self.root_dir / "config.yaml"

    @property
    def environment(self) -> Path:
        """The units' EnvironmentFile."""
        return self.own / "tempolet.env"

    @property
    def kubelet_configuration(self) -> Path:
        """KubeletConfiguration of the services."""
        return self.own / "kubelet.yaml"

    @property
    def tempolet_configuration(self) -> Path:
        """TempoletConfiguration of the services, if one was given."""
        return self.own / "tempolet.yaml"

    @property
    def record(self) -> Path:
        """What join made, for the next join and for leave."""
        return self.own / "joined.json"

    @property
    def payload_keys(self) -> Path:
        """The keys of the node's histories."""
        return self.root_dir / "tempolet" / "payload.keys"
