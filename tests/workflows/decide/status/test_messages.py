"""How much of the containers' termination messages does a pod's status show?"""

from dataclasses import replace

import pytest

from tests.workflows.decide.situations import down, pod, situation
from workflows.decide.status.messages import POD_BYTES, shown
from workflows.decide.status.status import pod_status


@pytest.mark.parametrize(
    ("regular", "init", "said", "shows"),
    [
        pytest.param(1, 0, "x" * 4096, "x" * 4096, id="one-container-says-all-that-it-may"),
        pytest.param(3, 0, "x" * 4096, "x" * 4096, id="three-share-without-loss"),
        pytest.param(4, 0, "x" * 4096, "x" * 3072, id="four-get-three-kib-each"),
        pytest.param(2, 2, "x" * 4096, "x" * 3072, id="init-containers-count"),
        pytest.param(48, 0, "x" * 4096, "x" * 256, id="the-rows-of-the-kubelet-s-own-test"),
        pytest.param(4, 0, "ä" * 2048, "ä" * 1536, id="bytes-count-not-letters"),
        pytest.param(7, 0, "€" * 1000, "€" * 585, id="no-letter-is-cut-in-two"),
        pytest.param(30, 0, "", "", id="nothing"),
    ],
)
def test_a_container_s_share(regular: int, init: int, said: str, shows: str) -> None:
    """An equal share of 12 KiB."""
    names = [f"c{number}" for number in range(regular)]
    assert shown(situation(pod(*names, init=[f"i{number}" for number in range(init)])), said) == shows


def test_a_whole_pod_stays_within_its_limit() -> None:
    """States and last states are cut; the facts keep the whole messages."""
    names = [f"c{number}" for number in range(20)]
    ends = {name: down(1, name) for name in names}
    for facts in ends.values():
        assert facts.exit
        facts.exit = facts.last_exit = replace(facts.exit, message="x" * 4096)
    here = situation(pod(*names, restartPolicy="Never"), containers=ends)
    statuses = pod_status(here).container_statuses or []
    for states in ([one.state for one in statuses], [one.last_state for one in statuses]):
        assert sum(len(one.terminated.message or "") for one in states if one and one.terminated) <= POD_BYTES
    end = here.observed.containers["c0"].exit
    assert end
    assert len(end.message) == 4096
