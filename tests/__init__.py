"""Tests of the project; the folders mirror those of the code."""
