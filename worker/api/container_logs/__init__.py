"""The container logs endpoint (kubectl logs): its options, and how a log file is read."""
