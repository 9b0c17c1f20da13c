"""Which manifests this node runs: supported fields, defaults."""
