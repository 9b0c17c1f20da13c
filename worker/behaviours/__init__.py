"""The numbered behaviours of a node's runs: what the node is committed to, what each run follows, and raising old runs."""
