"""Tests of which pods a node on real containerd takes, and of who is stopped for them."""
