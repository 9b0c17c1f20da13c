"""The pod's status as the API shows it: phase, conditions, container statuses."""
