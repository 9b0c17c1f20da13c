"""Whether the node runs short of memory, disk or process ids: what is measured (`signals`), what follows from it (`judge`)."""
