"""The cgroups above and beside the pods: what is enforced for the node, and where its processes run."""
