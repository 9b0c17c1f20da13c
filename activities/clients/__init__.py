"""The only code of the house that speaks outward, one file a wire."""
