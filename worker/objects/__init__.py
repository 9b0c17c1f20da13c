"""The objects of a standalone node, as files of a folder: ConfigMaps, Secrets and others a manifest refers to."""
