"""The node's HTTPS API on 10250, one file an endpoint. See README.md."""
