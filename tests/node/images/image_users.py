"""Builds an image with a named or numeric user for the node's tests: busybox with a passwd and a group file."""

from pathlib import Path
from typing import Final

from worker.standalone.containerd import Containerd
from worker.standalone.images.oci import File, Folder, Image, Link, archive

USER_ID: Final = 1234
GROUP_ID: Final = 2345
OTHER_GROUP_ID: Final = 3456
"""A group that the image adds the user to."""
_PASSWD: Final = f"root:x:0:0::/:/bin/sh\napp:x:{USER_ID}:{GROUP_ID}::/:/bin/sh\n"
_GROUP: Final = f"root:x:0:\napp:x:{GROUP_ID}:\nothers:x:{OTHER_GROUP_ID}:app\n"


def import_image_of(containerd: Containerd, user: str, directory: Path) -> str:
    """Import an image that runs as this user; returns its name."""
    (busybox,) = (one for one in containerd.parts_dir.rglob("bin/busybox") if one.is_file() and not one.is_symlink())
    name = f"docker.io/library/user-{user}:1"
    tree: dict[str, File | Link | Folder] = {
        "bin": Folder(),
        "bin/busybox": File(busybox.read_bytes(), 0o755),
        **{f"bin/{applet}": Link("busybox") for applet in ("sh", "cat", "sleep", "id")},
        "etc": Folder(),
        "etc/passwd": File(_PASSWD.encode()),
        "etc/group": File(_GROUP.encode()),
    }
    file = directory / f"user-{user}.tar"
    file.write_bytes(archive(Image((name,), tree, {"User": user})))
    containerd.import_image(file)
    return name
