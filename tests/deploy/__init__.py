"""Tests of what `make up` and `make test` prepare."""
