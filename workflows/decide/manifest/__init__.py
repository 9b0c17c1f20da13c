"""What a manifest may say: supported fields, defaults, validation."""
