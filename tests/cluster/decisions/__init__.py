"""tempolet's decisions beside the kubelet's own code, over random cases."""
