"""A machine of 2 GiB whose memory gets short."""
