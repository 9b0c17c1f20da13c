"""The wires: what crosses a process, a socket or a history. See README.md."""
