"""KubeletConfiguration: its keys and defaults, the file with its drop-ins, and feature gates."""
