"""Which CPUs are taken: tempolet beside the kubelet."""
