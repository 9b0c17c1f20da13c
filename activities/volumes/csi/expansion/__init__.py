"""Expands CSI volumes on the node: whether one has to be (pure), what the claim's status says then (pure), and the doing."""
