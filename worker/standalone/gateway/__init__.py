"""The process around the embedded Temporal: a network namespace of its own, and the only two ways into it.

Temporal itself asks nobody who he is, so nobody may reach it: not another user of the machine, and not a pod in the host's
network with root in its container. Only this process, its parent, has sockets on both sides: a unix socket in a folder of
root's for gRPC, and the UI's port on loopback, which asks for a token. It imports the standard library only, and ends with
Temporal as Temporal ends with it. It stays root; Temporal runs as a user of its own where `up` could make one.
"""
