"""Nodes whose memory is short, or nearly so."""
