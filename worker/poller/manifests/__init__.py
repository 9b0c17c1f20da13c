"""Static pods from files and a URL: read, validated, listed, and kept in sync with their workflows.

See ../README.md.
"""
