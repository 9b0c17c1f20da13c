"""Reads the runtime: facts about pods, ends of containers, termination messages."""
