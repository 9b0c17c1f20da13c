"""Settings about cgroups: the driver, what is enforced for the node, where its processes run."""
