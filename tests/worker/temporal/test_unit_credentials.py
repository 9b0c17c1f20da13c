"""Under a real systemd: do our units get the secrets for Temporal as credentials, by the drop-in of the README, and nothing they start?"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.daemon.systemd_machine import UNITS, Machine, our_unit, skip_unless_possible

pytestmark = pytest.mark.systemd

API_KEY = "canary-of-an-api-key"
INSIDE = """
import json, os, pathlib, subprocess, sys
from worker.temporal.temporal_client import TemporalSettings, with_credentials
found = with_credentials(os.environ)
key = pathlib.Path(found["TEMPORAL_TLS_CLIENT_KEY_PATH"])
child = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
print(json.dumps({
    "api key": found["TEMPORAL_API_KEY"],
    "tls key": key.read_text(),
    "mode": oct(key.stat().st_mode & 0o777),
    "child": found["TEMPORAL_API_KEY"] in child,
    "mounts": os.readlink("/proc/self/ns/mnt"),
}))
"""
ONCE = "[Service]\nType=oneshot\nRestart=no\nWatchdogSec=0\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Run a systemd for this file."""
    skip_unless_possible()
    with Machine(tmp_path_factory.mktemp("systemd")) as started:
        started.inside(
            "mount", "--make-rshared", "/"
        )  # as systemd does at a boot: a child of its own mounts the credentials
        yield started


def drop_in(folder: Path) -> str:
    """Return the README's drop-in, with the files of another folder."""
    text: str
    (text,) = re.findall(r"```\n(\[Service\]\nLoadCredential=.*?)```", (UNITS / "README.md").read_text(), re.DOTALL)
    for path in re.findall(r":(/etc/\S+)", text):
        text = text.replace(path, str(folder / Path(path).name))
    return text


def seen_by(machine: Machine, role: str, folder: Path) -> dict[str, Any]:
    """Run a program as one of our units, with the drop-in; returns what it saw."""
    (folder / "temporal-api-key").write_text(f"{API_KEY}\n")
    (folder / "temporal-tls-key.pem").write_text("the key")
    for one in folder.iterdir():
        one.chmod(0o600)
    (folder / "inside.py").write_text(INSIDE)
    unit, log = f"with-credentials-{role}.service", folder / "log"
    text = our_unit(role, f"{sys.executable} {folder / 'inside.py'}", log).replace("PrivateTmp=yes\n", "")
    machine.write(unit, text)
    machine.write(f"{unit}.d/credentials.conf", drop_in(folder))
    machine.write(f"{unit}.d/once.conf", ONCE)
    machine.systemctl("daemon-reload")
    machine.systemctl("start", unit)
    found: dict[str, Any] = json.loads(log.read_text().splitlines()[-1])
    return found


@pytest.mark.parametrize("role", ["worker", "poller"])
def test_a_unit_has_them_and_its_children_do_not(role: str, machine: Machine, tmp_path: Path) -> None:
    """The API key and the TLS key, readable by root alone."""
    seen = seen_by(machine, role, tmp_path)
    assert (seen["api key"], seen["tls key"], seen["child"]) == (API_KEY, "the key", False)
    assert int(seen["mode"], 8) & 0o077 == 0


def test_the_worker_keeps_the_mount_namespace_of_the_machine(machine: Machine, tmp_path: Path) -> None:
    """Or containerd would not see the volumes that it mounts."""
    seen = seen_by(machine, "worker", tmp_path)
    assert seen["mounts"] == machine.inside("readlink", "/proc/1/ns/mnt").strip()
