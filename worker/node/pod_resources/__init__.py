"""The PodResources API."""
