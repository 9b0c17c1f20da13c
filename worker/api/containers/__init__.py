"""The pod and container that a request names, and the CRI calls made for it."""
