"""Is the folder of a machine removed, also after its process was killed?"""

import signal
import subprocess
import sys
from pathlib import Path

from tests.machine.run_folders import PREFIX, remove_leftovers

ROOT = Path(__file__).parents[2]
HOLDS = """
import sys
from tests.machine.run_folders import run_folder
with run_folder() as folder:
    (folder / "disk").write_text("large")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_lives_as_long_as_its_process(tmp_path: Path) -> None:
    """While it runs nobody else removes it; once it was killed, the next one does."""
    command = [sys.executable, "-c", HOLDS]
    pipe, environment = subprocess.PIPE, {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert folder.name.startswith(PREFIX)
        assert remove_leftovers(tmp_path) == []
        assert (folder / "disk").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert remove_leftovers(tmp_path) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_removed_at_its_end(tmp_path: Path) -> None:
    """With what is in it."""
    done = subprocess.run([sys.executable, "-c", HOLDS], cwd=ROOT, input=b"", env={"TMPDIR": str(tmp_path)}, check=True)
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
