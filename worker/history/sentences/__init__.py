"""The sentences of a story, a subject a module, and what is remembered between two of them."""
