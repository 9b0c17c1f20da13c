"""Every name and shape that a recorded history remembers: they only grow (style §15)."""
