"""The ids of the node for pods' user namespaces: all above the first range, or those of the user `kubelet`.

See pkg/kubelet/kubelet_pods.go getKubeletMappings and userns MakeUserNsManager. Subordinate ids may be configured
outside of files, so `getsubids` is asked; if there is a user `kubelet` and the tool, it must answer.
"""

import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from proto.kubernetes.user_ids import UNIT, IdRanges
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration

USER: Final = "kubelet"
_ALL_IDS: Final = 2**32
_TOOL: Final = "getsubids"
_PATIENCE: Final = 30.0
_MOST_NAMED: Final = 10
_LINE_WORDS: Final = 4  # 0: kubelet 65536 2147483648


def user_namespace_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List what is wrong with userNamespaces.idsPerPod (apis/config/validation/validation_linux.go)."""
    per_pod = kubelet["userNamespaces.idsPerPod"]
    if per_pod is None:
        return
    if per_pod < UNIT:
        yield f"userNamespaces.idsPerPod: {per_pod}, but it must not be less than {UNIT}"
    if per_pod % UNIT:
        yield f"userNamespaces.idsPerPod: {per_pod}, but it must be a multiple of {UNIT}"
    if per_pod >= _ALL_IDS:
        yield f"userNamespaces.idsPerPod: {per_pod}, but it must not be more than {_ALL_IDS - 1}"


def id_ranges(per_pod: int, pods: int, subordinate: Callable[[], str | None] | None = None) -> IdRanges:
    """Return the ids to hand out, `per_pod` at a time, enough for so many pods; raises ConfigurationRefused.

    `subordinate` returns what the tool prints, None if there is no such user or tool.
    """
    printed = (subordinate or ask_subordinate_ids)()
    ranges = IdRanges(per_pod, _ALL_IDS - per_pod, per_pod) if printed is None else _parsed(printed, per_pod)
    where = f"the ids that {_TOOL} gives the user {USER} (/etc/subuid, /etc/subgid)"
    if ranges.first % per_pod or ranges.count % per_pod:
        raise ConfigurationRefused(
            f"{where}: first and count must be multiples of {per_pod} (userNamespaces.idsPerPod)"
        )
    if ranges.first < per_pod:
        raise ConfigurationRefused(f"{where}: must start at {per_pod} or above: lower ids are the node's own")
    if ranges.count // per_pod < pods:
        raise ConfigurationRefused(f"{where}: are not enough for {pods} pods (maxPods), {per_pod} for each")
    return ranges


def missing_user_namespaces(handlers: Mapping[str, bool]) -> str:
    """Say that no handler of the runtime has user namespaces; empty if one has. `handlers`: which has them, by name."""
    if any(handlers.values()):
        return ""
    named = ", ".join(sorted(one or "the default one" for one in handlers)[:_MOST_NAMED]) or "it tells of none"
    return (
        f"no pod can have hostUsers: false here: no handler of the container runtime ({named}) has user namespaces, which need "
        "containerd 2.0, runc 1.2 or crun, and kernel 6.3; other pods run"
    )


def ask_subordinate_ids() -> str | None:
    """Ask for the user's ids, the same for users and groups; raises ConfigurationRefused."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return None
    tool = shutil.which(_TOOL)
    if tool is None:
        return None
    answers = []
    for options in ((), ("-g",)):
        try:
            done = subprocess.run((tool, *options, USER), capture_output=True, text=True, timeout=_PATIENCE, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigurationRefused(f"{_TOOL} {' '.join((*options, USER))}: {error}") from error
        answers.append(done.stdout)
    if answers[0] != answers[1]:
        raise ConfigurationRefused(f"the user {USER} has other subordinate groups than users: make them the same")
    return answers[0]


def _parsed(printed: str, per_pod: int) -> IdRanges:
    """Parse what the tool prints; there must be one range."""
    lines = printed.strip("\n").split("\n")
    words = lines[0].split()
    if len(lines) != 1 or len(words) != _LINE_WORDS:
        raise ConfigurationRefused(f"{_TOOL} {USER}: one line of four words is expected, not {printed[:200]!r}")
    numbers = [int(word) for word in words[2:] if word.isascii() and word.isdecimal() and int(word) < _ALL_IDS]
    if len(numbers) != 2:
        raise ConfigurationRefused(f"{_TOOL} {USER}: {lines[0][:200]!r} does not end with two numbers below {_ALL_IDS}")
    return IdRanges(numbers[0], numbers[1], per_pod)
