"""The firewall rules of a standalone node's pods, by nftables or iptables."""
