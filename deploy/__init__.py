"""For operators: what puts a node onto a machine; nothing of it is shipped in the wheel."""
