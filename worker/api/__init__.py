"""The node's HTTPS API on 10250, one file per endpoint. See README.md."""
