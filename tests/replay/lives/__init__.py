"""The corpus of lives: pods and nodes led by chance over a fake runtime, recorded once per behaviour and replayed by the tests."""
