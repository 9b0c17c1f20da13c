"""Node-pressure eviction, local storage limits and preemption, as the kubelet decides them."""
