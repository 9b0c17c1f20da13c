"""Are drop-ins merged over the file in the kubelet's order, as merge patches?"""

from pathlib import Path

import pytest

from worker.daemon.config import NodeConfig, load_node_config
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def load(tmp_path: Path, file: str, drop_ins: dict[str, str]) -> NodeConfig:
    """Read a file and drop-ins that each say something below their head."""
    (tmp_path / "kubelet.yaml").write_text(HEAD + file)
    folder = tmp_path / "kubelet.conf.d"
    folder.mkdir()
    for name, text in drop_ins.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text)
    return load_node_config(Flags(config=tmp_path / "kubelet.yaml", config_dir=folder))


@pytest.mark.parametrize(
    ("drop_ins", "pids"),
    [
        pytest.param({}, 1, id="none"),
        pytest.param({"10.conf": "podPidsLimit: 10"}, 10, id="one-wins-over-the-file"),
        pytest.param({"10.conf": "podPidsLimit: 10", "9.conf": "podPidsLimit: 9"}, 9, id="lexical-order-not-numeric"),
        pytest.param(
            {"b/1.conf": "podPidsLimit: 21", "a.conf": "podPidsLimit: 2"}, 21, id="a-folder-comes-at-its-name"
        ),
        pytest.param({"b/1.conf": "podPidsLimit: 21", "c.conf": "podPidsLimit: 3"}, 3, id="and-not-after-all-files"),
        pytest.param(
            {"1.yaml": "podPidsLimit: 10", "2.conf.bak": "podPidsLimit: 2"}, 1, id="other-endings-are-ignored"
        ),
        pytest.param({"1.conf": "podPidsLimit: null"}, -1, id="null-gives-the-default-back"),
    ],
)
def test_order(tmp_path: Path, drop_ins: dict[str, str], pids: int) -> None:
    """The last one in lexical order wins."""
    assert load(tmp_path, "podPidsLimit: 1", drop_ins).pod_pids_limit == pids


def test_maps_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    """A drop-in is a JSON merge patch."""
    config = load(
        tmp_path,
        "clusterDNS: [10.0.0.1, 10.0.0.2]\nfeatureGates: {EventedPLEG: true}\nlogging: {format: json, verbosity: 2}",
        {
            "1.conf": "clusterDNS: [10.0.0.3]\nfeatureGates: {KubeletCrashLoopBackOffMax: false}\nlogging: {verbosity: 3}"
        },
    )
    assert config.dns.cluster_dns == ("10.0.0.3",)
    assert config.feature_gates.values == {"EventedPLEG": True, "KubeletCrashLoopBackOffMax": False}
    assert (config.logging.format, config.logging.verbosity) == ("json", 3)


def test_a_bad_drop_in_is_refused_by_name(tmp_path: Path) -> None:
    """The message has the drop-in's own path."""
    with pytest.raises(ConfigurationRefused, match=r"kubelet\.conf\.d/1\.conf: podPidsLimit: 'x' is text"):
        load(tmp_path, "", {"1.conf": "podPidsLimit: x"})


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Asked for and not there is an error, not an empty configuration."""
    with pytest.raises(ConfigurationRefused, match="--config-dir"):
        load_node_config(Flags(config_dir=tmp_path / "nowhere"))
