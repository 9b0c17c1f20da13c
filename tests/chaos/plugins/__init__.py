"""Kill -9 of everything at every call of a device plugin and of a DRA driver."""
