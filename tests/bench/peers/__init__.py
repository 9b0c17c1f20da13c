"""The peers that are measured: raw CRI calls, the real kubelet, tempolet; each with a containerd of its own."""
