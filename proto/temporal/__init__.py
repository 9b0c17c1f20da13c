"""Names and types that recorded histories contain: they are only added to, because old histories must still replay."""
