"""How answers, signals and updates change Observed: the only writers of it."""
