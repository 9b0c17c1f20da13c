"""Whether devices are given as by the kubelet's device manager."""
