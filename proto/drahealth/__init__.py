"""The API by which DRA drivers tell the health of devices, one folder per version."""
