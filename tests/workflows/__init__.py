"""PodWorkflow on a real Temporal, with activities that act on a model of the runtime."""
