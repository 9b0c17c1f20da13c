"""Facts about this machine: its identity, addresses and file change notification."""
