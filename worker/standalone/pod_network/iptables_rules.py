"""The rules of an instance's pods in iptables: our own, and what the portmap plugin left in table nat.

Ours are those of `nft_rules`, for a machine without nftables, and two that matter where something else (Docker, a
firewall) has made DROP the policy of FORWARD: what pods send, and the answers, pass. They are the last of their chain,
so every rule of the operator's goes first. All carry a comment with the bridge's name.

The plugin has three chains that all CNI users of the machine share, and one more for each pod with host ports. It
removes only the latter, and none if containerd has died.
"""

import ipaddress
import re
import shlex
import subprocess
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from worker.standalone.pod_network.network import PodNetwork

_PODS: Final = "CNI-HOSTPORT-DNAT"
_SHARED: Final = (_PODS, "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK")
_OF_POD: Final = "CNI-DN-"
_TO_POD: Final = re.compile(r"--to-destination (\d+\.\d+\.\d+\.\d+)")
_TABLES: Final = ("raw", "nat", "filter")

Rules = Mapping[str, tuple[str, ...]]


def add_rules(iptables: Path, network: PodNetwork, *, forward_only: bool) -> bool:
    """Create (or replace) our rules, with `forward_only` only those of FORWARD; False if the kernel refuses."""
    wanted = forward_rules(network) if forward_only else {**loopback_rules(network), **forward_rules(network)}
    listed = {table: _list(iptables, table) for table in _TABLES}
    lines = []
    for table in _TABLES:
        changes = [*_deleted(own_rules(listed[table], network)), *wanted.get(table, ())]
        lines += [f"*{table}", *changes, "COMMIT"] if changes else []
    return _restore(iptables, lines)


def remove_rules(iptables: Path, network: PodNetwork) -> int:
    """Remove our rules and the host ports of pods that were not removed by CNI; returns the number of those pods.

    The plugin's shared chains are removed too, once no pod uses them.
    """
    for table in _TABLES:
        if own := own_rules(_list(iptables, table), network):
            _restore(iptables, [f"*{table}", *_deleted(own), "COMMIT"])
    listed = _list(iptables, "nat")
    stale = stale_chains(listed, network.subnet)
    _restore(iptables, without(listed, stale))
    listed = _list(iptables, "nat")
    _restore(iptables, without(listed, unused_chains(listed)))
    return len(stale)


def loopback_rules(network: PodNetwork) -> Rules:
    """Return the rules of `nft_rules`, by table."""
    bridge, subnet, comment = network.bridge, network.subnet, _comment(network)
    return {
        "raw": (
            f"-A PREROUTING -i {bridge} -d 127.0.0.0/8 {comment} -j DROP",
            f"-A PREROUTING -i {bridge} -s 127.0.0.0/8 {comment} -j DROP",
        ),
        "nat": (f"-A POSTROUTING -s {subnet} ! -d {subnet} {comment} -j MASQUERADE",),
    }


def forward_rules(network: PodNetwork) -> Rules:
    """Return the rules that a DROP policy of FORWARD makes necessary."""
    comment = _comment(network)
    return {
        "filter": (
            f"-A FORWARD -i {network.bridge} {comment} -j ACCEPT",
            f"-A FORWARD -o {network.bridge} -m conntrack --ctstate RELATED,ESTABLISHED,DNAT {comment} -j ACCEPT",
        )
    }


def own_rules(listed: Iterable[str], network: PodNetwork) -> list[str]:
    """Find our rules in a listing, by their comment."""
    wanted = ["--comment", _mark(network)]
    found = [(line, shlex.split(line)) for line in listed if line.startswith("-A ")]
    return [line for line, words in found if wanted in [words[at : at + 2] for at in range(len(words))]]


def stale_chains(listed: Iterable[str], subnet: str) -> list[str]:
    """Find the chains of pods whose host ports lead into a subnet."""
    network = ipaddress.ip_network(subnet)
    found = [
        line.split()[1]
        for line in listed
        if line.startswith(f"-A {_OF_POD}")
        and any(ipaddress.ip_address(address) in network for address in _TO_POD.findall(line))
    ]
    return list(dict.fromkeys(found))


def unused_chains(listed: Collection[str]) -> list[str]:
    """Find the plugin's shared chains if no pod uses them."""
    used = any(line.startswith(f"-A {_PODS} ") for line in listed)
    return [] if used else [chain for chain in _SHARED if f"-N {chain}" in listed]


def without(listed: Iterable[str], chains: Collection[str]) -> list[str]:
    """Return the lines that delete chains of table nat and every jump to them; all of it happens, or nothing."""
    if not chains:
        return []
    jumps = [line for line in listed if line.startswith("-A ") and line.split()[-1] in chains]
    jumps = [line for line in jumps if line.split()[1] not in chains]
    return ["*nat", *_deleted(jumps), *(f"-F {one}" for one in chains), *(f"-X {one}" for one in chains), "COMMIT"]


def _deleted(rules: Iterable[str]) -> list[str]:
    return [f"-D {rule.removeprefix('-A ')}" for rule in rules]


def _comment(network: PodNetwork) -> str:
    return f"-m comment --comment {_mark(network)}"


def _mark(network: PodNetwork) -> str:
    return f"tempolet:{network.bridge}"


def _list(iptables: Path, table: str) -> list[str]:
    argv: list[str | Path] = [iptables, "-w", "-t", table, "-S"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _restore(iptables: Path, lines: list[str]) -> bool:
    if not lines:
        return True
    argv: list[str | Path] = [iptables.with_name("iptables-restore"), "-w", "--noflush"]
    done = subprocess.run(argv, input="\n".join([*lines, ""]), text=True, capture_output=True, check=False)
    return done.returncode == 0
