"""Is protectKernelDefaults obeyed as by the kubelet, and a kernel left alone by whoever does not ask?"""

from pathlib import Path

import pytest

from worker.daemon.config import load_node_config
from worker.machine.kernel_tunables import EXPECTED, KernelTunablesDiffer, settle_kernel_tunables
from worker.settings.flags import Flags

OTHERS = {name: value + 1 for name, value in EXPECTED.items()}


def machine(folder: Path, values: dict[str, int]) -> Path:
    """Write a machine's settings."""
    for name, value in values.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n")
    return folder


def settings(folder: Path) -> dict[str, int]:
    """Read them."""
    return {name: int((folder / name).read_text()) for name in EXPECTED}


def test_true_takes_a_machine_with_the_kubelets_settings(tmp_path: Path) -> None:
    """Nothing is written."""
    kernel = machine(tmp_path, dict(EXPECTED))
    (kernel / "vm/panic_on_oom").chmod(0o400)
    settle_kernel_tunables(protect=True, sysctls=kernel)


def test_true_refuses_any_other_and_changes_nothing(tmp_path: Path) -> None:
    """Each setting is named."""
    kernel = machine(tmp_path, OTHERS)
    with pytest.raises(KernelTunablesDiffer, match=r"^protectKernelDefaults: true") as refused:
        settle_kernel_tunables(protect=True, sysctls=kernel)
    assert all(f"{name} is {OTHERS[name]}, expected is {EXPECTED[name]}" in str(refused.value) for name in EXPECTED)
    assert settings(kernel) == OTHERS


def test_false_sets_them(tmp_path: Path) -> None:
    """As the kubelet does by default."""
    kernel = machine(tmp_path, OTHERS)
    settle_kernel_tunables(protect=False, sysctls=kernel)
    assert settings(kernel) == EXPECTED


@pytest.mark.parametrize("protect", [True, False])
def test_a_setting_that_cannot_be_read_is_an_error(tmp_path: Path, protect: bool) -> None:
    """A kernel without it is not what was asked for."""
    kernel = machine(tmp_path, dict(EXPECTED))
    (kernel / "kernel/panic").unlink()
    with pytest.raises(KernelTunablesDiffer, match="kernel/panic: "):
        settle_kernel_tunables(protect=protect, sysctls=kernel)


def test_without_the_key_they_are_left_alone(tmp_path: Path) -> None:
    """Unlike in the kubelet: a node of `up` must leave a machine as it was."""
    kernel = machine(tmp_path, OTHERS)
    settle_kernel_tunables(protect=None, sysctls=kernel)
    assert settings(kernel) == OTHERS


@pytest.mark.parametrize(
    ("text", "protect"),
    [
        pytest.param("", None, id="no-key"),
        pytest.param("protectKernelDefaults: true\n", True, id="true"),
        pytest.param("protectKernelDefaults: false\n", False, id="false"),
    ],
)
def test_the_key(tmp_path: Path, text: str, protect: bool | None) -> None:
    """A default is not the operator's word."""
    file = tmp_path / "kubelet.yaml"
    file.write_text(f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}")
    config = load_node_config(Flags(config=file, root_dir=tmp_path))
    assert config.protect_kernel_defaults is protect
    assert not any("protectKernelDefaults" in warning for warning in config.warnings)
