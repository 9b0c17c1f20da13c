"""Volumes: mounted and unmounted by their types (`types/`), which the table in `plugin/` lists."""
