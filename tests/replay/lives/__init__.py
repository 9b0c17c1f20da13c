"""Generated lives: random lives of pods and nodes over a fake runtime, recorded once for each behaviour and replayed by the tests."""
