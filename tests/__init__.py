"""The questions asked of this project; the folders mirror its rooms."""
