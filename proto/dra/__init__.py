"""The API of DRA drivers, one folder per version."""
