"""HTTP responses of the node's API, in the kubelet's form."""
