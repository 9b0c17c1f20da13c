"""Node-pressure eviction: measures the node, reclaims what nobody needs, and evicts one pod at a time; tells when the kernel had to end a process."""
