"""systemd over D-Bus: one connection (`bus`), the units of cgroups (`units`), services with unit files (`services`)."""
