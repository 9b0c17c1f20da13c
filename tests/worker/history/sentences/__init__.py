"""Tests of the sentences about single subjects."""
