"""The fields of a manifest: their kinds, which are supported, and the errors about them."""
