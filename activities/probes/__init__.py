"""Probes: one file for each handler, the loop that runs them, the registry of loops, and the activity that reports.

A loop belongs to the process, not to the activity: the activity of the next run or try finds it running.
"""
