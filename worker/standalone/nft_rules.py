"""The nftables rules of an instance's pods: one table of ours, and what the portmap plugin left in its own.

One rule for the whole subnet masquerades pods' outgoing traffic, instead of one a pod (CNI's ipMasq), which would cost
every pod's start some milliseconds.
"""

import ipaddress
import re
import subprocess
from pathlib import Path
from typing import Final

from worker.standalone.containerd_config import PodNetwork

PORTMAP_TABLES: Final = (("ip", "cni_hostport"), ("ip6", "cni_hostport"))
_ADDRESS: Final = re.compile(r"(?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d.])")
_HANDLE: Final = re.compile(r"# handle (\d+)$")
_CHAIN: Final = re.compile(r"\s*chain (\S+) \{")


def masquerade(nft: Path, network: PodNetwork) -> None:
    """Create (or replace) the table with the one rule; raises CalledProcessError if the kernel refuses."""
    subprocess.run([nft, "-f", "-"], input=masquerade_rules(network), text=True, capture_output=True, check=True)


def remove_rules(nft: Path, network: PodNetwork) -> int:
    """Remove our table and the host ports of pods that were not removed by CNI; returns the number of those rules.

    The plugin's table is removed too, once no rule uses it.
    """
    subprocess.run([nft, "delete", "table", "ip", network.bridge], capture_output=True, check=False)
    removed = 0
    for family, table in PORTMAP_TABLES:
        listed = _list(nft, family, table)
        stale = stale_host_ports(listed, network.subnet)
        commands = [f"delete rule {family} {table} {chain} handle {handle}" for chain, handle in stale]
        if listed and listed.count(" dnat ") == sum(1 for chain, _ in stale if chain.endswith("hostports")):
            commands.append(f"delete table {family} {table}")
        if commands:
            subprocess.run([nft, "-f", "-"], input="\n".join(commands), text=True, capture_output=True, check=False)
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


def masquerade_rules(network: PodNetwork) -> str:
    """Format the table; it is deleted first, so that it never has the rule twice."""
    return f"""\
table ip {network.bridge}
delete table ip {network.bridge}
table ip {network.bridge} {{
  chain postrouting {{
    type nat hook postrouting priority 100;
    ip saddr {network.subnet} ip daddr != {network.subnet} masquerade
  }}
}}
"""


def _list(nft: Path, family: str, table: str) -> str:
    done = subprocess.run([nft, "-a", "list", "table", family, table], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
