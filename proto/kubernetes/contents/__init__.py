"""The fields and objects that environment variables and volumes show."""
