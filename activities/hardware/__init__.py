"""Gives pods exclusive hardware."""
