"""A systemctl for one root folder: starts what units say, with the flags and variables that they name, and stops it again.

`systemctl_for` writes the program; it is started as `PROGRAM --no-pager VERB …`. It keeps its state in a folder: `<unit>.enabled`, `<unit>.pid`,
`<unit>.log`, and `calls`, a line for each call that changes something. A file `broken` lets every such call fail.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

STOPS_WITHIN: Final = 60.0


def systemctl_for(root: Path, state: Path) -> Path:
    """Write the program; returns its path."""
    state.mkdir()
    program = state / "systemctl"
    script = (
        f"#!{sys.executable} -IS\n"
        f"exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec'))\n"
        f"main(Path({str(root)!r}), Path({str(state)!r}), sys.argv[1:])\n"
    )
    program.write_text(script)
    os.chmod(program, 0o755)  # noqa: PTH101 - as for every program here
    return program


def main(root: Path, state: Path, words: list[str]) -> None:
    """Play one call."""
    verb, *rest = [word for word in words if word not in ("--no-pager", "--now", "--no-block")]
    if verb == "show":
        show(root, state, rest[-1])
        return
    if (state / "broken").exists():
        sys.exit(f"{verb}: broken by the test")
    with (state / "calls").open("a") as calls:
        calls.write(f"{verb} {' '.join(rest)}\n")
    for unit in rest:
        if verb in ("disable", "restart"):
            stop(state, unit)
        if verb == "disable":
            (state / f"{unit}.enabled").unlink()
        if verb == "enable":
            (state / f"{unit}.enabled").touch()
        if verb == "restart" or (verb == "enable" and "--now" in words):
            start(root, state, unit)


def show(root: Path, state: Path, unit: str) -> None:
    """Print what join and leave ask for."""
    loaded = (root / "etc/systemd/system" / unit).exists()
    print(f"Id={unit}")
    print(f"LoadState={'loaded' if loaded else 'not-found'}")
    print(f"ActiveState={'active' if runs(state, unit) else 'inactive'}")
    print(f"SubState={'running' if runs(state, unit) else 'dead'}")
    print(f"UnitFileState={'enabled' if (state / f'{unit}.enabled').exists() else ''}")


def start(root: Path, state: Path, unit: str) -> None:
    """Start a unit's program as systemd would, from the same folder of variables, below the root."""
    if runs(state, unit):
        return
    lines = [
        line.split("=", 1) for line in (root / "etc/systemd/system" / unit).read_text().splitlines() if "=" in line
    ]
    told: dict[str, list[str]] = {}
    for name, value in lines:
        told.setdefault(name, []).append(value)
    variables = {"PATH": os.environ["PATH"], "HOME": "/root", "NO_PROXY": "127.0.0.1,localhost"}
    for pairs in told["Environment"]:
        variables.update((name, value) for name, _, value in (one.partition("=") for one in pairs.split()))
    (file,) = told["EnvironmentFile"]
    for line in (root / file.removeprefix("-/")).read_text().splitlines():
        if line and not line.startswith("#"):
            name, value = line.split("=", 1)
            variables[name] = value.strip('"')
    (command,) = told["ExecStart"]
    argv: list[str] = []
    for word in command.split():
        argv += variables.get(word[1:], "").split() if word.startswith("$") else [word]
    with (state / f"{unit}.log").open("ab") as log:
        started = subprocess.Popen(
            [root / argv[0][1:], *argv[1:]],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (state / f"{unit}.pid").write_text(str(started.pid))


def runs(state: Path, unit: str) -> bool:
    """Report whether its process runs."""
    try:
        pid = (state / f"{unit}.pid").read_text()
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def stop(state: Path, unit: str) -> None:
    """End its process, and wait for that."""
    deadline = time.monotonic() + STOPS_WITHIN
    sign = signal.SIGTERM
    while runs(state, unit):
        try:
            os.kill(int((state / f"{unit}.pid").read_text()), sign)
        except ProcessLookupError:
            break
        sign = signal.Signals(signal.SIGKILL) if time.monotonic() > deadline else signal.Signals(signal.SIGCONT)
        time.sleep(0.02)
    (state / f"{unit}.pid").unlink(missing_ok=True)
