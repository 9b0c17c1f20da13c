"""Installation tools for operators; not part of the wheel."""
