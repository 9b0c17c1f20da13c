"""What an operator can set: file formats, schema, rules and flags; `worker.daemon.config` makes one `NodeConfig` of it."""
