"""CSI drivers: their registration, their CSIDriver objects and the requests to them."""
