"""Certificates of pods: asked for, kept and renewed."""
