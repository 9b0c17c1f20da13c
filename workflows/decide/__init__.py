"""The pure core: facts and `now` in, decisions and their reasons out. No Temporal, clock, socket or randomness here."""
