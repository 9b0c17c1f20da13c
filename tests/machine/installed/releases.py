"""Two releases of the Debian package of this checkout."""

import shutil
from pathlib import Path
from typing import Final

from deploy.debian.package import HOME, build_tree, pack

FIRST: Final = "tempolet_0.1.0-1_amd64.deb"
SECOND: Final = "tempolet_0.1.0-2_amd64.deb"
"""Has another conffile and one file more."""

OURS: Final = (
    "ls -d /usr/bin/tempolet /usr/lib/tempolet /etc/tempolet /var/lib/tempolet /run/tempolet* /usr/share/doc/tempolet 2>/dev/null; "
    "getent passwd tempolet-temporal; getent group tempolet-temporal"
)
"""Lists what there may be of a package that was installed, or of its node."""


def build_releases(folder: Path) -> Path:
    """Build both; returns their folder."""
    work, packages = folder / "work", folder / "packages"
    work.mkdir()
    tree = build_tree(work)
    pack(tree, "0.1.0-1", packages)
    with (tree / "etc/tempolet/environment").open("a") as changed:
        changed.write("# the second release\n")
    (tree / HOME / "second").touch()
    pack(tree, "0.1.0-2", packages)
    shutil.rmtree(work)
    return packages
