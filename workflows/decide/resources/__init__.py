"""A pod's resources: what it has and what a resize grants."""
