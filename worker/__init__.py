"""Wiring: hosts workflows and activities, feeds them, and speaks to the operator."""
