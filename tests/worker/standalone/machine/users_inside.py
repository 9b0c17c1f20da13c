"""In a mount namespace with an /etc of its own: makes, uses and removes the user of a node, and prints what it saw (`test_system_user.py`)."""

import grp
import json
import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path

from worker.standalone.machine.system_user import NoUser, SystemUser


def main(folder: Path) -> dict[str, object]:
    """Return the facts."""
    state = folder / "state"
    state.mkdir(mode=0o711)
    user = SystemUser.of_temporal(state, Path("/run/another"))
    before = Path("/etc/passwd").read_text()
    seen: dict[str, object] = {"name": user.name, "nothing to remove": user.remove()}
    user.make()
    found = pwd.getpwnam(user.name)
    seen["system"] = 0 < found.pw_uid < 1000
    seen["shell"], seen["group"] = found.pw_shell, grp.getgrgid(found.pw_gid).gr_name
    seen["mode"] = oct(user.declaration.stat().st_mode & 0o777)
    user.make()
    seen["again"] = pwd.getpwnam(user.name) == found
    seen["usable"] = _refused(lambda: user.require_use(state, Path("/bin/ls")))
    seen["no program"] = _refused(lambda: user.require_use(state, folder / "missing"))
    folder.chmod(0o700)
    seen["no way"] = _refused(lambda: user.require_use(state, Path("/bin/ls")))
    path = os.environ["PATH"]
    os.environ["PATH"] = str(_program(folder, "userdel", "userdel: user is currently used by process 7").parent)
    seen["stays"] = (user.remove(), user.declaration.exists())
    os.environ["PATH"] = path
    seen["removed"] = user.remove()
    seen["passwd"] = Path("/etc/passwd").read_text() == before
    seen["left"] = [one.name for one in state.iterdir()]
    seen["group left"] = user.name in {one.gr_name for one in grp.getgrall()}

    theirs = SystemUser("games", state / "theirs.conf")
    theirs.make()
    seen["of the machine"] = (theirs.declaration.exists(), theirs.remove(), pwd.getpwnam("games").pw_name)
    seen["root"] = _refused(SystemUser("root", state / "root.conf").make)

    user.declaration.write_text("cut off before the user was made")
    seen["cut off"] = (user.remove(), user.declaration.exists())
    os.environ["PATH"] = str(_program(folder, "systemd-sysusers", "Read-only file system").parent)
    seen["not made"] = _refused(user.make)
    seen["undeclared"] = not user.declaration.exists()
    return seen


def _program(folder: Path, name: str, says: str) -> Path:
    """Make a program that fails."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho first >&2; echo '{says}' >&2; exit 8\n")
    path.chmod(0o755)
    return path


def _refused(act: Callable[[], None]) -> str:
    try:
        act()
    except NoUser as error:
        return str(error)
    return ""


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
