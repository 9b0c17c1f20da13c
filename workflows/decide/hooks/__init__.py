"""When lifecycle hooks run."""
