"""The deterministic half: what a pod's workflow does, and in `decide/` why. See README.md."""
