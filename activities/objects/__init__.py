"""API objects that activities read: ConfigMaps, Secrets, tokens, trust bundles."""
