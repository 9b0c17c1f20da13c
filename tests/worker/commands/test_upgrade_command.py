"""Does `tempolet upgrade` change nothing while a history differs, unless the worker can lead that pod on?"""

from pathlib import Path

import pytest

from worker.commands import replay, upgrade
from worker.commands.access.exits import CommandFailed, Exit
from worker.daemon.config import NodeConfig
from worker.host.replays.replaying import Verdict
from worker.stand_in.journal.reading import AWAY
from worker.standalone.settings import Settings
from worker.upgrades.services import CannotUpgrade
from worker.upgrades.up_processes import UpProcesses

FITS = Verdict("pod/n/default/web/u1", 20)
POD = Verdict("pod/n/default/api/u2", 30, "TMPRL1100")
UNKNOWN = Verdict("pod/n/default/old/u3", 30, "TMPRL1100")
NODE = Verdict("node/n", 10, "TMPRL1100")


@pytest.mark.parametrize(
    ("verdicts", "force", "refused"),
    [
        pytest.param([], False, "", id="a-node-without-pods"),
        pytest.param([FITS], False, "", id="all-fit"),
        pytest.param([FITS, POD], False, "pod/n/default/api/u2 cannot go on", id="a-pod-differs"),
        pytest.param([FITS, POD], True, "", id="the-worker-leads-it-if-forced"),
        pytest.param(
            [POD, UNKNOWN], True, "nothing was changed: pod/n/default/old/u3 cannot", id="not-without-a-state"
        ),
        pytest.param([NODE], True, "node/n cannot go on", id="nor-the-nodes-own-without-one"),
    ],
)
def test_what_differs_is_named(
    verdicts: list[Verdict], force: bool, refused: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the exit code of `tempolet replay`."""

    async def live(_config: NodeConfig) -> list[Verdict]:
        return verdicts

    monkeypatch.setattr(replay, "live", live)
    config = NodeConfig("n", root_dir=tmp_path)
    (config.state_dir / AWAY / "u2").mkdir(parents=True)
    if not refused:
        upgrade._refuse_differing(config, force=force)
        return
    with pytest.raises(CommandFailed, match=refused) as failed:
        upgrade._refuse_differing(config, force=force)
    assert failed.value.code is Exit.REPLAY_DIFFERS
    assert ("--force" in str(failed.value)) is not force


def test_a_node_of_up_that_does_not_run_is_not_upgraded(tmp_path: Path) -> None:
    """What runs tells which release is the one before."""
    with pytest.raises(CannotUpgrade, match=r"the worker of the node at .* does not run"):
        UpProcesses.found(Settings(state_dir=tmp_path / "state", run_dir=tmp_path / "run"))
