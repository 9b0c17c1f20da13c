"""The steps of a pod's start and end, in order."""
