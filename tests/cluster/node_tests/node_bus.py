"""D-Bus and logind of the machine that the official node tests take over, for those of a graceful shutdown.

The system's own dbus-daemon and systemd-logind, with units of ours: those of a distribution confine logind more than these namespaces allow.
The bus is open to root alone. So whoever says on it that the machine shuts down is root, also if its connection is closed at once, as that of
the tests is (`activities/clients/systemd/logind.py`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

LOGIND: Final = Path("/lib/systemd/systemd-logind")
SERVICES: Final = ("dbus.service", "systemd-logind.service")
CONFIGURATION: Final = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
"""
PREPARED: Final = "mount -t tmpfs -o mode=755 tmpfs /etc/systemd\n"
"""What the machine's first process does: an agent writes logind's configuration there, and the host's is not the machine's."""


def bus_units(configuration: Path) -> Mapping[str, str]:
    """Return the units of both; the agents have logind read its configuration again by its usual name."""
    daemon = f"dbus-daemon --config-file={configuration} --address=systemd: --nofork --nopidfile"
    return {
        "dbus.socket": "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\nSocketMode=0600\n",
        "dbus.service": "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nAfter=dbus.socket\n"
        f"[Service]\nType=notify\nNotifyAccess=main\nExecStart={daemon}\n",
        "systemd-logind.service": "[Unit]\nDefaultDependencies=no\nRequires=dbus.service\nAfter=dbus.service\n"
        f"[Service]\nType=dbus\nBusName=org.freedesktop.login1\nExecStart={LOGIND}\n",
    }
