"""The PodResources API: the devices, CPUs and memory assigned to containers, one folder per version."""
