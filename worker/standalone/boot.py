"""What a boot has wiped of a node of `tempolet up`, made again: `python -m worker.standalone.boot STATE-DIR`.

Started by the unit `tempolet-up-boot.service` before the node's other units. Most of a node's run folder, its bridge, cgroup and
firewall rules are gone after a boot; its state folder has the settings of the last `up`. If something is refused, such as a bridge that
another node has taken, the message is in the journal, and systemd tries again.
"""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

from worker.standalone.containerd import ContainerdFailed
from worker.standalone.cri_client import CriClient, RuntimeNotReady
from worker.standalone.machine.owner_marks import TakenByAnother, claim_cgroup, claim_state
from worker.standalone.machine.private_files import private_folder
from worker.standalone.machine.programs import MissingProgram
from worker.standalone.node_config import write_configuration
from worker.standalone.settings import Settings, recorded

GIVEN_RUNTIME_WITHIN: Final = timedelta(seconds=60)


class NothingRecorded(Exception):
    """The state folder has no settings of a node."""


def prepare(state_dir: Path) -> Settings:
    """Make a node's run folder, and what it has in the kernel; what is there already stays as it is.

    Raises NothingRecorded, TakenByAnother, MissingProgram, ContainerdFailed, RuntimeNotReady, OSError.
    """
    settings = recorded(state_dir)
    if settings is None:
        raise NothingRecorded(f"{state_dir} has no settings of a node: run `tempolet up` again")
    if not settings.is_of_this_boot():
        settings.containerd.forget_former_boot()
    claim_state(settings.state_dir, settings.containerd.owner)
    settings.keep_for_this_boot()
    settings.refer_to_units()
    if not settings.temporal.process.running():
        settings.temporal.prepare()
    if settings.container_runtime_endpoint:
        claim_cgroup(settings.cgroup, settings.containerd.owner)
        with CriClient(settings.runtime_socket) as runtime:
            runtime.wait_until_ready(GIVEN_RUNTIME_WITHIN)
    elif not settings.containerd.process.running():
        settings.containerd.prepare()
    private_folder(settings.configuration)
    write_configuration(settings)
    return settings


def main(state_dir: Path) -> str:
    """Return what was refused; empty if nothing was."""
    try:
        prepare(state_dir)
    except (NothingRecorded, TakenByAnother, MissingProgram, ContainerdFailed, RuntimeNotReady, OSError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or 0)
