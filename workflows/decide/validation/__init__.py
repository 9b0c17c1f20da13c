"""Whether a manifest is a valid pod: its structure, then the rules of the API's ValidatePodCreate.

The poller asks `structure` first and `pod` after defaulting. Wording and paths are the API's, every fault is reported.
"""
