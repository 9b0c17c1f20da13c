"""The objects of a standalone node: ConfigMaps, Secrets and what else a manifest may refer to, as files of a folder."""
