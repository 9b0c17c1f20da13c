"""Commands that change a pod by an Update of its workflow."""
