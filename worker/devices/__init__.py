"""Device plugins: their registration, their devices, and what is asked of them."""
