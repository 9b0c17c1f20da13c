"""The connection to Temporal: client, payload codec, keys."""
