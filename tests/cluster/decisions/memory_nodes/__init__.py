"""From which NUMA nodes containers have their memory: tempolet beside the kubelet."""
