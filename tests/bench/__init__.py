"""`make bench`: how fast tempolet is beside raw CRI calls and the real kubelet. README.md says how to read it."""
