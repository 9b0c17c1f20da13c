"""Tests of the metrics that a kubelet has, too."""
