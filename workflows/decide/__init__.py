"""The pure core: facts and `now` in, answers with their reasons out. No Temporal, clock, socket or randomness here."""
