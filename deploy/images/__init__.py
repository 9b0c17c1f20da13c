"""Images for a node without a registry, made from Debian packages and a few bytes of our own."""
