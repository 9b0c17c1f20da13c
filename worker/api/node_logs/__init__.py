"""The node logs endpoint (/logs): files below /var/log, and queries of services' logs."""
