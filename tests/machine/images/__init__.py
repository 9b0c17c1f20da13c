"""What a machine is made of, built once and kept: QEMU, the guest's disk, and the disk with the checkout."""
