"""The firewall rules of an instance's pods, by what the machine has: nftables before iptables.

Added at each `up`, before containerd starts: someone may have flushed them. Removed from both, whichever made them: a
node may have been started before the other was installed, and the portmap plugin chooses for itself if it is old.
"""

from dataclasses import dataclass
from pathlib import Path

from worker.standalone.pod_network import iptables_rules, nft_rules
from worker.standalone.pod_network.network import PodNetwork


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of one instance, with the programs of this machine; None: it is not installed."""

    network: PodNetwork
    nft: Path | None
    iptables: Path | None

    def add(self) -> bool:
        """Create or replace them; False if nothing keeps pods from the node's loopback addresses.

        Raises CalledProcessError if the kernel refuses those of nftables.
        """
        guarded = False
        if self.nft:
            nft_rules.add_rules(self.nft, self.network)
            guarded = True
        if self.iptables:
            guarded |= iptables_rules.add_rules(self.iptables, self.network, forward_only=guarded)
        return guarded

    def remove(self) -> None:
        """Remove them, and the host ports that CNI did not remove."""
        if self.nft:
            nft_rules.remove_rules(self.nft, self.network)
        if self.iptables:
            iptables_rules.remove_rules(self.iptables, self.network)
