"""Images for a node without a registry, built from Debian packages and a few bytes of our own."""
