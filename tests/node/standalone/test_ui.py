"""What does an operator see of a pod in the Temporal UI, in a browser without any earlier setup?"""

import base64
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from proto.pod_snapshot import PodSnapshot
from tests.node.standalone.browser import Browser, browser, missing_browser
from tests.node.standalone.shown_node import (
    INIT,
    choose_columns,
    crash,
    history_url,
    list_url,
    pod_url,
    shop_manifest,
    shown_node,
    sign_in,
)
from tests.node.tempolet_node import TempoletNode
from worker.standalone.containerd import Containerd
from worker.temporal.keys import read_token_file

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing_browser()), reason=missing_browser())]

SUMMARIES: Final = (
    "run sandbox, attempt 0",
    *(f"start {name}" for name in INIT),
    "start main",
    "start main, restart 1",
)
ENCRYPTED: Final = "YmluYXJ5L2VuY3J5cHRlZA"  # binary/encrypted in base64


@dataclass(frozen=True, slots=True)
class Shown:
    """A pod with three init containers that has crashed once, and a browser."""

    node: TempoletNode
    pod: PodSnapshot
    window: Browser

    def tab(self, name: str, *texts: str) -> str:
        """Open a tab of the pod's page and return its text once it contains these words."""
        return self.window.show(
            pod_url(self.node, self.pod, name), lambda text: all(one in text for one in texts), f"{texts}"
        )


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, containerd: Containerd) -> Iterator[Shown]:
    """Bring the pod to this state, once for all tests."""
    with shown_node(tmp_path_factory.mktemp("ui"), containerd, "node-ui") as node, browser() as window:
        window.size(1600, 2400)  # what is far outside the window is not rendered
        sign_in(window, node)
        node.apply(shop_manifest())
        yield Shown(node, crash(node, "shop"), window)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("PodPhase = 'Running' AND PodReady = 'True'", True, id="by-phase"),
        pytest.param("PodName = 'shop-node-ui' AND PodNamespace = 'default'", True, id="by-name"),
        pytest.param("PodNode = 'node-ui' AND PodRestarts > 0 AND PodReason = 'Error'", True, id="by-restarts"),
        pytest.param("PodPhase = 'Pending'", False, id="not-by-a-phase-that-is-over"),
    ],
)
def test_the_list_finds_a_pod_by_its_search_attributes(shown: Shown, query: str, *, found: bool) -> None:
    """The UI accepts the queries in the README."""
    wanted = shown.pod.workflow_id if found else "No Workflows"
    text = shown.window.show(list_url(shown.node, query), lambda text: wanted in text, f"{wanted} for {query}")
    assert (shown.pod.workflow_id in text) is found


def test_the_list_shows_search_attributes_as_columns(shown: Shown) -> None:
    """Phase, readiness, last reason and restarts beside the pod's workflow, once a user has chosen the columns."""
    choose_columns(shown.window, shown.node)
    text = shown.window.show(
        list_url(shown.node, "PodNode = 'node-ui'"), lambda text: "PodRestarts" in text and "Error" in text, "columns"
    )
    row = text[text.rindex(shown.pod.workflow_id) :].split()
    assert row[1:5] == ["Running", "True", "Error", "1"]


def test_the_timeline_is_readable(shown: Shown) -> None:
    """Every step has a summary, beside the decoded manifest."""
    shown.tab("timeline", *SUMMARIES, '"kind": "Pod"', f'"name": "{shown.pod.name}"')


def test_the_event_history_is_readable(shown: Shown) -> None:
    """Summaries and results too; nothing is shown encrypted."""
    text = shown.tab("history", *SUMMARIES, '{"sandbox_id":"', f"default/{shown.pod.name} on node-ui")
    assert "encrypted" not in text
    assert ENCRYPTED not in text


def test_the_card_says_where_the_pod_stands(shown: Shown) -> None:
    """Identity and current details: phase, last reason, each container."""
    text = shown.tab(
        "user-metadata",
        f"default/{shown.pod.name} on node-ui",
        "Running, ready, 1 restart",
        "last reason: Error",
        "lost the database",
    )
    assert "init migrate ended: Completed, exit code 0 at " in text
    assert "main running since " in text
    assert "1 restart; before: Error, exit code 3 at " in text


def test_the_search_attributes_have_a_page(shown: Shown) -> None:
    """With the current values."""
    shown.tab("search-attributes", '"PodPhase": "Running"', '"PodReady": "True"', '"PodRestarts": 1')


def test_temporal_itself_could_show_none_of_it(shown: Shown) -> None:
    """What Temporal sends to the UI is encrypted: only the browser calls the codec endpoint."""
    token = read_token_file(shown.node.temporal.places.token)
    password = base64.b64encode(f"any:{token}".encode()).decode()
    asked = urllib.request.Request(history_url(shown.node, shown.pod), headers={"Authorization": f"Basic {password}"})
    with urllib.request.urlopen(asked) as answer:
        history = answer.read().decode()
    assert ENCRYPTED in history
    opened = [base64.b64decode(one) for one in re.findall(r'"data": ?"([^"]*)"', history)]
    assert not any(b"busybox" in one or b"sandbox" in one for one in opened)
