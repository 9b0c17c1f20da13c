"""To which CSI drivers volumes of clouds go: tempolet beside the kubelet."""
