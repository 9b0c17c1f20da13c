"""The rules of an instance's pods in nftables: one table of ours, and what the portmap plugin left in its own.

One rule for the whole subnet masquerades pods' outgoing traffic, instead of one a pod (CNI's ipMasq), which would cost
every pod's start some milliseconds. Two drop what pods send to or from loopback addresses: for host ports the plugin
sets route_localnet on the bridge, and a pod could then reach what listens on the node's 127.0.0.1 (CVE-2020-8558). They
come before connections are tracked, so answers of a host port, whose addresses are changed back later, pass.
"""

import ipaddress
import re
import subprocess
from pathlib import Path
from typing import Final

from worker.standalone.pod_network.network import PodNetwork

PORTMAP_TABLES: Final = (("ip", "cni_hostport"), ("ip6", "cni_hostport"))
_OF_PODS: Final = frozenset({"hostports", "hostip_hostports", "masquerading"})
"""The plugin's chains with rules of pods; the others jump to them."""
_ADDRESS: Final = re.compile(r"(?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d.])")
_HANDLE: Final = re.compile(r"# handle (\d+)$")
_CHAIN: Final = re.compile(r"\s*chain (\S+) \{")


def add_rules(nft: Path, network: PodNetwork) -> None:
    """Create (or replace) our table; raises CalledProcessError if the kernel refuses."""
    subprocess.run([nft, "-f", "-"], input=pod_rules(network), text=True, capture_output=True, check=True)


def remove_rules(nft: Path, network: PodNetwork) -> int:
    """Remove our table and the host ports of pods that were not removed by CNI; returns the number of those rules.

    The plugin's table is removed too, once no rule uses it.
    """
    subprocess.run([nft, "delete", "table", "ip", network.bridge], capture_output=True, check=False)
    removed = 0
    for family, table in PORTMAP_TABLES:
        stale = stale_host_ports(_list(nft, family, table), network.subnet)
        _run(nft, [f"delete rule {family} {table} {chain} handle {handle}" for chain, handle in stale])
        _run(nft, removal_of_unused(_list(nft, family, table), family, table))
        removed += len(stale)
    return removed


def stale_host_ports(listed: str, subnet: str) -> list[tuple[str, str]]:
    """Find the rules of a subnet's addresses in a listing with handles: chain and handle of each."""
    network = ipaddress.ip_network(subnet)
    found, chain = [], ""
    for line in listed.splitlines():
        if opened := _CHAIN.match(line):
            chain = opened.group(1)
        ours = any(ipaddress.ip_address(address) in network for address in _ADDRESS.findall(line))
        if ours and (handle := _HANDLE.search(line)):
            found.append((chain, handle.group(1)))
    return found


def removal_of_unused(listed: str, family: str, table: str) -> list[str]:
    """Return the commands that remove the plugin's table if it has no host port; none if it has.

    nft carries out all of them or none, and does not delete a chain that has rules: a host port that another CNI user
    adds meanwhile stays.
    """
    if not listed or " dnat " in listed:
        return []
    chains = [opened.group(1) for line in listed.splitlines() if (opened := _CHAIN.match(line))]
    commands = [f"flush chain {family} {table} {chain}" for chain in chains if chain not in _OF_PODS]
    commands += [f"delete chain {family} {table} {chain}" for chain in chains]
    return [*commands, f"delete table {family} {table}"]


def pod_rules(network: PodNetwork) -> str:
    """Format the table; it is deleted first, so that it never has a rule twice."""
    return f"""\
table ip {network.bridge}
delete table ip {network.bridge}
table ip {network.bridge} {{
  chain loopback {{
    type filter hook prerouting priority -300;
    iifname "{network.bridge}" ip daddr 127.0.0.0/8 drop
    iifname "{network.bridge}" ip saddr 127.0.0.0/8 drop
  }}
  chain postrouting {{
    type nat hook postrouting priority 100;
    ip saddr {network.subnet} ip daddr != {network.subnet} masquerade
  }}
}}
"""


def _run(nft: Path, commands: list[str]) -> None:
    if commands:
        subprocess.run([nft, "-f", "-"], input="\n".join(commands), text=True, capture_output=True, check=False)


def _list(nft: Path, family: str, table: str) -> str:
    done = subprocess.run([nft, "-a", "list", "table", family, table], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
