"""A machine on which tempolet was installed from its package."""
