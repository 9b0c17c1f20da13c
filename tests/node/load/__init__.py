"""Whole nodes full of pods: what they write while nothing happens, and how they start again."""
