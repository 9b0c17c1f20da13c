"""Tests of the sentences that `tempolet history` prints."""
