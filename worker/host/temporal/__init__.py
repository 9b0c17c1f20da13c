"""What the worker process does in Temporal beside hosting: takes over after a crash, watches paused activities, limits the histories."""
