"""Who may have which image: what registries are told, and what is remembered of what they said."""
