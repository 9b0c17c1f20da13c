"""A node of `tempolet up` on a disk that loses what nobody has flushed."""
