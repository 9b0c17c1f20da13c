"""PersistentVolumeClaims and the volumes bound to them."""
