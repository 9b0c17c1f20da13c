"""A pod's host name, resolver and hosts file."""
