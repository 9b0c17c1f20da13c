"""Dynamic resource allocation: what DRA drivers have prepared for the pods of this node."""
