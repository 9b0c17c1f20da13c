"""Clients: the code that talks to other programs over the network or a socket, one file for each protocol."""
