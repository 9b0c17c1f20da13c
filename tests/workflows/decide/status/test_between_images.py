"""What is the status of a container that was stopped for another image, until the next instance exists?"""

from typing import Any

import pytest

from proto.temporal.pod import ContainerFacts, Lifecycle
from tests.workflows.decide.situations import Context, at, down, pod, situation
from workflows.decide.status.status import pod_status

OF_API = Context(from_api=True)
STATIC = Context()
OUTDATED: dict[str, Any] = {"outdated": True, "started_at": at(-40)}
REFUSED: dict[str, Any] = {"failure_reason": "CreateContainerError", "failure_message": "no such device"}


@pytest.mark.parametrize(
    ("context", "facts", "more", "expected"),
    [
        pytest.param(OF_API, down(0, **OUTDATED), {}, ("running", True), id="it-is-shown-as-it-ran"),
        pytest.param(STATIC, down(0, **OUTDATED), {}, ("terminated", False), id="a-static-pod-tells-each-step"),
        pytest.param(OF_API, down(0), {}, ("terminated", False), id="it-ended-by-itself"),
        pytest.param(OF_API, down(0, **OUTDATED, **REFUSED), {}, ("waiting", False), id="the-next-one-does-not-start"),
        pytest.param(
            OF_API, down(0, **OUTDATED), {"lifecycle": Lifecycle.TERMINATING}, ("terminated", False), id="its-pod-goes"
        ),
    ],
)
def test_between_two_images(
    context: Context, facts: ContainerFacts, more: dict[str, Any], expected: tuple[str, bool]
) -> None:
    """The kubelet writes the status before it acts, so nothing is reported between an exit and the next start."""
    status = pod_status(situation(pod(), context, containers={"web": facts}, **more))
    assert status.container_statuses is not None
    (web,) = status.container_statuses
    assert web.state is not None
    (state,) = [name for name in ("running", "waiting", "terminated") if getattr(web.state, name)]
    assert (state, web.ready) == expected
    assert [one.status for one in status.conditions or () if one.type == "Ready"] == [str(expected[1])]
