"""Messages to pods: to Temporal, or to the worker while it leads the pod."""
