"""What an operator types: one file a sub-command of `tempolet`, put together in `app`."""
