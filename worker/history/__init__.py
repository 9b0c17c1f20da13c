"""Turns the events of a workflow history into the sentences of `tempolet history`."""
