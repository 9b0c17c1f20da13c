"""A booted Debian 13 under QEMU: cgroup v2, systemd as PID 1, reboots, power loss. `make test-machine`."""
