"""The node process, part by part."""
