"""`make bench`: the speed of tempolet compared with raw CRI calls and the real kubelet. README.md explains the results."""
