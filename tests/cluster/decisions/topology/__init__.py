"""From which NUMA nodes resources come: tempolet beside the kubelet."""
