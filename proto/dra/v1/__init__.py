"""DRA drivers v1: k8s.io/kubelet's api.proto unedited (Apache License 2.0), and the stubs of `make stubs`.

v1beta1 has the same messages under its own service name, but for `share_id`, which it lacks.
"""
