"""The machine of a standalone node: its programs, its processes, and what they leave in the kernel."""
