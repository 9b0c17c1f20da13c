"""All tests in separate pytest sessions, side by side: what `make test` runs."""
