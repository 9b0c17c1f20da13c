"""`tempolet join` and `tempolet leave`: this machine becomes a node of a cluster, and stops being one. See README.md."""
