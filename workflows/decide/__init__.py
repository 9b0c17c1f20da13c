"""The pure core: facts and `now` in, answers with their reasons out; sees neither Temporal, a clock nor the machine."""
