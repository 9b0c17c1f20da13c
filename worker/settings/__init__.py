"""What an operator can set: file formats, schema, rules and flags; `worker.config` makes one `NodeConfig` of it."""
