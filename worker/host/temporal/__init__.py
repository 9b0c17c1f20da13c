"""What the worker process does in Temporal beside hosting: takes over after a crash, keeps away from other machines' nodes, watches paused activities, limits the histories."""
