"""What a node of `tempolet up` has on its machine."""
