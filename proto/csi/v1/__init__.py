"""CSI v1: the csi.proto of container-storage-interface/spec 1.9.0 unedited, and the stubs `make stubs` generates from it.

Upstream's file carries no licence header: it is published under the Apache License 2.0, as the specification is. The
stubs cost 2.4 MB and 10 ms, so they are imported with the first call to a driver, not with the worker.
"""
