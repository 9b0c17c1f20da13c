"""The fields of a manifest: their kinds, which are supported, and how a fault in one is told."""
