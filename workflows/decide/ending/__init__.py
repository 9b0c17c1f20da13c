"""How long a pod may still run: grace periods and deadlines."""
