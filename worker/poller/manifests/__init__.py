"""Static pods from files and a URL: read, validated, listed, and kept in step with their workflows.

See ../README.md.
"""
