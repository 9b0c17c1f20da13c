"""CSI drivers: their registration, their CSIDriver objects and what they are told."""
