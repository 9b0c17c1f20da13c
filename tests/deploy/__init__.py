"""What `make up` and `make test` set up before any of our code runs."""
