"""A node without a cluster: what `tempolet up` starts around the worker and the poller, and `tempolet down` ends."""
