"""Runs in the guest: give, ask and give back the quota of a volume on the ext4 at argv[1], and print what was found as JSON."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, "/opt/tempolet")

from activities.files.disk_use import count_files
from activities.volumes.quotas import kernel
from activities.volumes.quotas.quotas import assign_quota, clear_quota, quota_use

MIB = 1024**2


def main() -> None:
    """Write before, after, and into a file that is unlinked while it is open."""
    folder = Path(sys.argv[1], "pods/u/volumes/kubernetes.io~empty-dir/data")
    folder.mkdir(parents=True)
    (folder / "early").write_bytes(b"x" * MIB)
    for _ in range(2):
        assign_quota(folder, limited=True)
    (folder / "deep").mkdir()
    (folder / "deep/late").write_bytes(b"x" * 2 * MIB)
    os.sync()
    found: dict[str, object] = {"quota": quota_use(folder), "files": count_files(folder, 60)}
    with (folder / "open").open("wb") as file:
        file.write(b"x" * 4 * MIB)
        file.flush()
        os.fsync(file.fileno())
        (folder / "open").unlink()
        found |= {"quota_open": quota_use(folder), "files_open": count_files(folder, 60)}
    opened = os.open(folder, os.O_RDONLY)
    found |= {"accounts": kernel.accounts(opened), "project": kernel.project_of(opened)}
    found["early"] = kernel.project_of(os.open(folder / "early", os.O_RDONLY))
    found["late"] = kernel.project_of(os.open(folder / "deep/late", os.O_RDONLY))
    found["lines"] = [Path("/etc", one).read_text() for one in ("projects", "projid")]
    other = folder.with_name("other")
    other.mkdir()
    clear_quota(folder)
    assign_quota(other, limited=False)
    found["lines_then"] = [Path("/etc", one).read_text() for one in ("projects", "projid")]
    clear_quota(other)
    clear_quota(other)
    found["lines_at_last"] = [Path("/etc", one).read_text() for one in ("projects", "projid")]
    found["quota_then"] = quota_use(folder)
    print(json.dumps(found))


main()
