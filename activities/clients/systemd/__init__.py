"""systemd over D-Bus: one connection (`bus`), and the units of cgroups (`units`)."""
