"""The pods of the API, and what else a cluster adds to the poller. See ../README.md."""
