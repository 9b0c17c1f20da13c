"""The stand-in: what goes on while Temporal is away."""
