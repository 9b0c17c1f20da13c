"""How answers, signals and Updates change `Observed`; nothing else writes it."""
