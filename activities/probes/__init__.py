"""Probing containers: one file a handler, the loop that counts, the registry of loops, and the activity that tells.

A loop belongs to the process, not to the activity: continue-as-new and a second try find it running (design §4.6).
"""
