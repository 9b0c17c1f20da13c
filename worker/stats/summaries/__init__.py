"""/stats/summary: what is read for it, and how it is put together."""
