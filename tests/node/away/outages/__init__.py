"""Outages of Temporal at random moments of pods' lives, and what must be as without them.

`test_outages.py` lets pods of each shape (`shapes.py`) live while Temporal goes away (`temporal_outages.py`), and `verdict.py` compares what they did and
tell with what is written down for their shape. What runs of 34 outages came to is in docs/performance.md, with the difference that is left. To run
one: `OUTAGES_SEED=15 make stress ARGS="tests/node/away/outages -k keeping"`, a quarter of an hour on two cores; `-k all` also deletes and restores databases.
"""
