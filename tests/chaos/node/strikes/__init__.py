"""What the faults of the table do: each arms what it needs, yields while the scenario begins its work, then strikes and mends.

A fault returns only when everything runs again that it stopped.
"""
