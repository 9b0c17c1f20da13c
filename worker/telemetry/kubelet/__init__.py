"""The kubelet's metrics of pods, by subject."""
