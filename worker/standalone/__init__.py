"""A standalone node: what `tempolet up` starts besides the worker and the poller, and `tempolet down` stops."""
