"""Manifests, out of files and a URL: read, judged and listed. See ../README.md."""
