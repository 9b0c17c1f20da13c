"""The network plugin between containerd and the real one: it does to single calls what a scenario says.

A folder for containerd with links to the real plugins, and in the place of one of them a program that looks for an order before it runs
the real one. Orders are files, so that each is taken once, by whichever call comes first.
"""

import itertools
import json
import shlex
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

PLUGIN: Final = "bridge"
"""It makes the link and takes the address."""
_ERROR: Final = json.dumps({"cniVersion": "1.0.0", "code": 100, "msg": "chaos: the network plugin fails"})


class Does(StrEnum):
    """What happens to a call."""

    FAILS = "fails"
    """An error instead of the effect."""
    HANGS = "hangs"
    """It waits until it may go on."""
    GARBAGE = "garbage"
    """The effect, and an answer that cannot be read."""
    PARTIAL = "partial"
    """The effect, and then an error."""


_PROGRAM: Final = """\
#!/bin/sh
order=
for one in {orders}/"$CNI_COMMAND".*; do
    mv "$one" {orders}/taken.$$ 2>/dev/null || continue
    read -r order < {orders}/taken.$$
    echo "$CNI_COMMAND $order" >> {orders}/struck
    break
done
case "$order" in
{fails}) echo {error}; exit 1 ;;
{hangs}) while [ ! -e {orders}/go ]; do sleep 0.05; done ;;
{garbage}) {real} > /dev/null; echo 'chaos: {{'; exit 0 ;;
{partial}) {real} > /dev/null; echo {error}; exit 1 ;;
esac
exec {real}
"""


class CniPlugin:
    """The folder of plugins of one containerd, and the orders."""

    def __init__(self, folder: Path, real: Path) -> None:
        """Make the folder; `real` is that of the real plugins."""
        self.folder, self._orders = folder / "bin", folder / "orders"
        self._numbers: Iterator[int] = itertools.count()
        for made in (self.folder, self._orders):
            made.mkdir(parents=True)
        for one in real.iterdir():
            if one.name != PLUGIN:
                (self.folder / one.name).symlink_to(one)
        program = self.folder / PLUGIN
        named = {str(one): str(one) for one in Does}
        paths = {"orders": shlex.quote(str(self._orders)), "real": shlex.quote(str(real / PLUGIN))}
        program.write_text(_PROGRAM.format(**named, **paths, error=shlex.quote(_ERROR)))
        program.chmod(0o755)

    def order(self, command: str, does: Does, times: int = 1) -> None:
        """Have something happen to the next calls of a kind (ADD, DEL)."""
        (self._orders / "go").unlink(missing_ok=True)
        for _ in range(times):
            new = self._orders / "new"
            new.write_text(f"{does}\n")
            new.rename(self._orders / f"{command}.{next(self._numbers)}")

    def struck(self) -> list[str]:
        """Tell to which calls something happened."""
        try:
            return (self._orders / "struck").read_text().splitlines()
        except FileNotFoundError:
            return []

    def go(self) -> None:
        """Let calls that hang go on."""
        (self._orders / "go").touch()

    def clear(self) -> None:
        """Take all orders back, and let calls that hang go on."""
        for one in (*self._orders.glob("ADD.*"), *self._orders.glob("DEL.*")):
            one.unlink(missing_ok=True)
        self.go()
        (self._orders / "struck").unlink(missing_ok=True)
