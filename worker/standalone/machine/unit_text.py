"""The text of the units that `tempolet up` writes: a service for each process, one for the boot, and a target. Pure.

Worker, poller and node run as on a node of a cluster: what their units in `deploy/systemd/` set holds here, too, but for the command, the
environment, and what would hide the node's folders.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MARK: Final = "# written by `tempolet up`, removed by `tempolet down`"
SET_HERE: Final = frozenset({"ExecStart", "Environment", "EnvironmentFile", "UMask"})
"""What a unit of `deploy/systemd/` says and these do not take from it."""
HIDDEN: Final = {"PrivateTmp": ("/tmp", "/var/tmp")}  # noqa: S108 - which are named
"""What hides folders: not taken for a process that has anything there."""
READ_ONLY: Final = {"ProtectHome": ("/home", "/root", "/run/user")}
"""What makes folders read-only: not taken for a process that writes there."""
CONTAINERD: Final = """\
Type=notify
NotifyAccess=main
TimeoutStartSec=180
Restart=always
RestartSec=2
TimeoutStopSec=10
# shims and containers are not its own to stop; their cgroups are
KillMode=process
Delegate=yes
OOMScoreAdjust=-999
# as containerd's own unit: containers inherit them
LimitNPROC=infinity
LimitCORE=0:infinity
TasksMax=infinity
"""
TEMPORAL: Final = """\
Type=exec
Restart=always
RestartSec=2
TimeoutStopSec=15
# the gateway hands SIGTERM on
KillMode=mixed
OOMScoreAdjust=-999
LimitNOFILE=65536
# a core dump would hold histories
LimitCORE=0
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
# the gateway makes a network for Temporal alone, with loopback; program and folders may be another user's. It gives the database to
# Temporal's user, makes Temporal that user's, and stops it. Temporal itself has none of these but the last (`gateway/kept_capability.py`)
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_NET_ADMIN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER CAP_SETUID CAP_SETGID CAP_KILL
CapabilityBoundingSet=CAP_BLOCK_SUSPEND
RestrictNamespaces=net
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
ProtectProc=invisible
PrivateDevices=yes
ProtectClock=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
"""
BOOT: Final = """\
Type=oneshot
RemainAfterExit=yes
# a runtime that is not there yet: the services start meanwhile, and again and again until this has ended
TimeoutStartSec=infinity
Restart=on-failure
RestartSec=5
"""


@dataclass(frozen=True, slots=True)
class ServiceText:
    """What a service of a node is made of."""

    name: str
    """What the journal shows before each line, where there would be the name of Python."""
    description: str
    settings: str
    """Lines of its [Service] section."""
    argv: Sequence[str]
    environment_file: Path
    umask: int = 0o077
    after: Sequence[str] = ()
    part_of: str = ""
    """The target whose stop stops it."""
    folders: Sequence[Path] = field(default=())
    """What must be mounted before."""

    def __str__(self) -> str:
        part_of = f"PartOf={self.part_of}\n" if self.part_of else ""
        mounts = " ".join(quoted(str(one)) for one in self.folders)
        return (
            f"{MARK}\n[Unit]\nDescription={self.description}\n{part_of}"
            f"After=network.target {' '.join(self.after)}\nRequiresMountsFor={mounts}\nStartLimitIntervalSec=0\n\n"
            f"[Service]\n{self.settings}"
            f"EnvironmentFile={_as_it_is(self.environment_file)}\nUMask={self.umask:04o}\n"
            f"SyslogIdentifier={self.name}\n"
            f"ExecStart={' '.join(quoted(one, dollar='$$') for one in self.argv)}\n"
        )


def target_text(description: str, wanted: Sequence[str]) -> str:
    """Return the unit that stands for the whole node."""
    return f"{MARK}\n[Unit]\nDescription={description}\nWants={' '.join(wanted)}\n\n[Install]\nWantedBy=multi-user.target\n"


def settings_of(unit: str, written: Sequence[Path], read: Sequence[Path] = ()) -> str:
    """Return the [Service] section of a unit of `deploy/systemd/`, without comments, what is set here, and what hides paths of the node."""
    left_out = SET_HERE | _standing_in_the_way(HIDDEN, (*written, *read)) | _standing_in_the_way(READ_ONLY, written)
    section, lines = "", []
    for line in unit.splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] != "#" and line.partition("=")[0] not in left_out:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _standing_in_the_way(settings: Mapping[str, Sequence[str]], paths: Sequence[Path]) -> set[str]:
    return {name for name, tops in settings.items() if any(one.is_relative_to(top) for one in paths for top in tops)}


def environment_text(environment: Mapping[str, str]) -> str:
    """Return the content of an EnvironmentFile (systemd.exec(5)): in double quotes, everything but four signs stands for itself."""
    return "".join(f'{name}="{_escaped(value)}"\n' for name, value in sorted(environment.items()))


def _escaped(value: str) -> str:
    return "".join(f"\\{one}" if one in '"\\`$' else one for one in value)


def _as_it_is(path: Path) -> str:
    """Write a path that is the whole rest of its line."""
    return str(path).replace("%", "%%")


def quoted(word: str, dollar: str = "$") -> str:
    """Quote a word for a unit (systemd.syntax(7)); `dollar`: what a dollar sign is written as."""
    written = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "%": "%%", "$": dollar}
    return '"' + "".join(written.get(one, one) for one in word) + '"'
