"""Health of devices v1alpha1: k8s.io/kubelet's api.proto unedited (Apache License 2.0), and the stubs of `make stubs`."""
