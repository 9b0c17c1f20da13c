"""Requests, answers and heartbeat details of activities."""
