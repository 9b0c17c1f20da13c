"""Records the lives of an API server's pods whose histories tests/replay replays. Run by `make record`, never by `make test`.

As in tests/node/recordings/record_histories.py, each row runs one pod through one life, here on a node of a real cluster.
"""

from collections.abc import Callable

import pytest

from tests.cluster.cluster_node import ClusterNode, NewNode
from tests.cluster.pods import recorded_claims, recorded_pods, recorded_unseen
from tests.node.recordings.recording import NODE, QUICK, place_of, write

LIVES: dict[str, Callable[[ClusterNode], None]] = {
    "api-plain": recorded_pods.plain,
    "api-finished": recorded_pods.finished,
    "api-rejected": recorded_pods.rejected,
    "api-claims": recorded_claims.claims,
    "api-forced": recorded_pods.forced,
    "api-deleted-during-pull": recorded_pods.deleted_during_pull,
    "api-edited": recorded_pods.edited,
    "api-token": recorded_pods.token,
    "api-evicted": recorded_pods.evicted,
    "api-ended-by-others": recorded_pods.ended_by_others,
    "api-history-lost": recorded_unseen.history_lost,
    "api-end-lost": recorded_unseen.end_lost,
    "api-deleted-unseen": recorded_unseen.deleted_unseen,
}


@pytest.mark.parametrize("name", LIVES)
def test_record(name: str, new_node: NewNode) -> None:
    """Run one life to its end, then write every run's history."""
    with place_of(name) as place, new_node(place, name=NODE, keys=QUICK) as node:
        LIVES[name](node)
        node.delete_all_pods()
        node.remove_all()
        write(node, name)
