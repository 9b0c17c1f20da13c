"""DRA drivers: one connection to each plugin, and which are registered."""
