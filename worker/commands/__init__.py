"""The commands of `tempolet`, put together in `app`."""
