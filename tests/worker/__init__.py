"""Tests of the processes, the API and the commands."""
