"""The Debian package: its root, its build, and its files."""
