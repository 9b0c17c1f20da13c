"""The API's pods, mirror pods and admission on a node of a cluster. See ../README.md."""
