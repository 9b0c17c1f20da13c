"""The kernel's settings that a kubelet relies on (pkg/kubelet/cm/container_manager_linux.go setupKernelTunables).

Called when the worker starts. `protectKernelDefaults: true` refuses a machine whose values differ, `false` sets them. A
kubelet sets them by default, for the whole machine; here they are left alone unless a file has the key.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import structlog

EXPECTED: Final[Mapping[str, int]] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
_SYSCTLS: Final = Path("/proc/sys")
_log: Final = structlog.get_logger(__name__)


class KernelTunablesDiffer(Exception):
    """The machine's values are not the kubelet's; the message names each."""


def settle_kernel_tunables(*, protect: bool | None, sysctls: Path = _SYSCTLS) -> None:
    """Check the settings (`protect`), set them (False) or leave them alone (None); raises KernelTunablesDiffer."""
    if protect is None:
        return
    faults = []
    for name, expected in EXPECTED.items():
        try:
            found = int((sysctls / name).read_text())
            if found == expected:
                continue
            if protect:
                faults.append(f"{name} is {found}, expected is {expected}")
                continue
            (sysctls / name).write_text(str(expected))
            _log.info("set a kernel setting, because protectKernelDefaults is false", sysctl=name, value=expected)
        except (OSError, ValueError) as error:
            faults.append(f"{name}: {error}")
    if faults:
        what = "true, and the kernel's settings differ" if protect else "false, and the kernel's settings can't be set"
        raise KernelTunablesDiffer(f"protectKernelDefaults: {what}: {'; '.join(faults)}")
