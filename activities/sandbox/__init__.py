"""Run, stop and remove pod sandboxes."""
