"""Are the files that `up` writes what containerd, CNI, nft and our own configuration expect?"""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from worker.daemon.config import load_node_config
from worker.standalone.containerd_config import (
    ContainerdOptions,
    ContainerdPlaces,
    cni_config,
    containerd_config,
    port_mapper,
)
from worker.standalone.node_config import node_command, node_flags, tempolet_configuration, write_configuration
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.settings import Ports, Settings, recorded

PLACES = ContainerdPlaces(Path("/state"), Path("/run/x"))
CRI = "io.containerd.grpc.v1.cri"


def test_containerd_keeps_to_its_own_folders() -> None:
    """Every path is below root or run, the cgroup driver is cgroupfs, the runtime is the one that was found, layers are synced."""
    around = ContainerdOptions(Path("/parts/runc"), Path("/parts/cni"), restrict_oom_score=True)
    config: dict[str, Any] = tomllib.loads(containerd_config(PLACES, around))
    cri = config["plugins"][CRI]
    assert config["version"] == 2
    assert (config["root"], config["state"]) == ("/state/containerd", "/run/x/containerd")
    assert config["grpc"]["address"] == "/run/x/containerd.sock"
    assert config["ttrpc"]["address"] == "/run/x/containerd.sock.ttrpc"
    assert cri["sandbox_image"] == "registry.k8s.io/pause:3.10.2"
    assert cri["restrict_oom_score_adj"] is True
    assert cri["image_pull_with_sync_fs"] is True
    assert config["plugins"]["io.containerd.service.v1.diff-service"] == {"sync_fs": True}
    assert cri["netns_mounts_under_state_dir"] is True
    assert cri["cni"] == {"bin_dir": "/parts/cni", "conf_dir": "/run/x/cni", "use_internal_loopback": True}
    assert cri["containerd"]["runtimes"]["runc"]["options"] == {"BinaryName": "/parts/runc", "SystemdCgroup": False}


def test_a_folder_with_quotes_stays_a_path() -> None:
    """Paths are quoted, not pasted."""
    around = ContainerdOptions(Path('/a"b/runc'), Path("/c\\d"), restrict_oom_score=False)
    config = tomllib.loads(containerd_config(PLACES, around))
    assert config["plugins"][CRI]["cni"]["bin_dir"] == "/c\\d"


def test_a_socket_path_that_is_too_long_is_refused() -> None:
    """The kernel takes 107 characters; the error names the flag."""
    longest = Path("/" + "r" * (107 - len("//containerd.sock.ttrpc")))
    ContainerdPlaces(Path("/s"), longest)
    with pytest.raises(ValueError, match="--run-dir"):
        ContainerdPlaces(Path("/s"), Path(f"{longest}r"))


@pytest.mark.parametrize(
    ("bridge", "subnet"),
    [
        pytest.param("b" * 16, "10.0.0.0/24", id="bridge-name-too-long"),
        pytest.param("b", "10.0.0.1/24", id="host-bits-set"),
        pytest.param("b", "pods", id="no-subnet"),
    ],
)
def test_a_network_that_cannot_be_is_refused(bridge: str, subnet: str) -> None:
    """Before anything is started."""
    with pytest.raises(ValueError, match=r"bridge name|host bits|does not appear"):
        PodNetwork(bridge, subnet)


def test_the_network_list() -> None:
    """One bridge with host-local below our own folder, and the port mapper behind it."""
    mapper = port_mapper(nft=True, iptables=False, protocol=(1, 1, 0))
    config = json.loads(cni_config(PodNetwork("br1", "10.9.0.0/24"), Path("/run/x/addresses"), mapper))
    bridge, portmap = config["plugins"]
    assert config["name"] == bridge["bridge"] == "br1"
    assert bridge["ipam"]["dataDir"] == "/run/x/addresses"
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.9.0.0/24"}]]
    assert portmap == {"type": "portmap", "capabilities": {"portMappings": True}, "backend": "nftables"}
    assert len(json.loads(cni_config(PodNetwork(), Path("/a"), None))["plugins"]) == 1


@pytest.mark.parametrize(
    ("nft", "iptables", "protocol", "chosen"),
    [
        pytest.param(True, True, (1, 1, 0), "nftables", id="nft-where-the-plugin-can"),
        pytest.param(True, True, (1, 0, 0), "iptables", id="old-plugin-takes-iptables"),
        pytest.param(True, False, (1, 0, 0), None, id="old-plugin-without-iptables-cannot"),
        pytest.param(False, True, (1, 1, 0), "iptables", id="no-nft"),
        pytest.param(False, False, (1, 1, 0), None, id="nothing-to-do-it-with"),
    ],
)
def test_how_host_ports_are_made(nft: bool, iptables: bool, protocol: tuple[int, ...], chosen: str | None) -> None:
    """By the first that works on this machine."""
    mapper = port_mapper(nft=nft, iptables=iptables, protocol=protocol)
    assert (mapper and mapper["backend"]) == chosen


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return a node's settings with nothing at its default place."""
    ports = Ports(ui=18233, worker_healthz=0, poller_healthz=0)
    return Settings(state_dir=tmp_path / "state", run_dir=tmp_path / "run", ports=ports, hostname_override="n1")


def test_our_own_reader_takes_what_up_writes(settings: Settings) -> None:
    """Without a warning: every key is one that tempolet acts on."""
    write_configuration(settings)
    config = load_node_config(node_flags(settings))
    assert config.warnings == ()
    assert config.node_name == "n1"
    assert config.root_dir == settings.root_dir
    assert config.static_pod_path == settings.manifests
    assert config.objects_dir == settings.objects
    assert config.container_runtime_endpoint == f"unix://{settings.run_dir}/containerd.sock"
    assert config.cgroup_root == "/tempolet"
    assert config.payload_key_file == settings.key_file
    assert config.tempolet.temporal.address == f"unix://{settings.run_dir}/temporal/grpc.sock"
    assert config.tempolet.codec.socket == settings.run_dir / "temporal" / "codec.sock"
    assert not config.tempolet.codec.address


def test_only_the_worker_serves_the_codec_endpoint(settings: Settings) -> None:
    """Two of them would want one socket."""
    write_configuration(settings)
    files = [node_command(settings, role).argv for role in ("worker", "poller")]
    own = [Path(argv[list(argv).index("--tempolet-config") + 1]) for argv in files]
    assert ["codec" in json.loads(path.read_text()) for path in own] == [True, False]


def test_each_process_is_told_its_own_log(settings: Settings) -> None:
    """It rotates what its output goes to."""
    write_configuration(settings)
    for role in ("worker", "poller"):
        command = node_command(settings, role)
        own = Path(str(command.argv[list(command.argv).index("--tempolet-config") + 1]))
        assert json.loads(own.read_text())["logs"]["file"] == str(command.log)


def test_a_service_is_told_no_log(settings: Settings) -> None:
    """Its output goes to the journal, which does the rest."""
    of_units = replace(settings, systemd=True)
    for role in ("worker", "poller", "node"):
        assert "file" not in tempolet_configuration(of_units, role)["logs"]


def test_settings_are_found_again(settings: Settings) -> None:
    """`down` needs the run folder only; a torn or foreign record counts as none."""
    settings.keep()
    assert recorded(settings.run_dir) == settings
    earlier = json.loads(settings.record.read_text())
    earlier["ports"] |= {"temporal": 7233, "codec": 8234}
    settings.record.write_text(json.dumps(earlier))
    assert recorded(settings.run_dir) == settings, "a node of an earlier release"
    settings.record.write_text('{"state_dir": "/x"}')
    assert recorded(settings.run_dir) is None
    settings.record.write_text("{")
    assert recorded(settings.run_dir) is None
