"""Configuration files, keys, rules and flags; `worker.daemon.config` builds one `NodeConfig` from them."""
