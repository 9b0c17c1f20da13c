"""CRI v1: upstream's api.proto unedited, and the stubs that `make stubs` generates from it."""
