"""Does a pod's workflow start nothing of a rejected pod, and end with its manifest?"""

from dataclasses import replace

from proto.temporal import names
from proto.temporal.operator import Explanation
from proto.temporal.signals import DeletionRequested
from tests.workflows.conftest import QUICK, Node, pod_json

TUNED = {"sysctls": [{"name": "kernel.sem", "value": "1"}]}
BEGUN = (names.RUN_POD_SANDBOX, names.PULL_IMAGE, names.READ_IMAGES, names.MAKE_POD_DIRECTORIES, names.START_CONTAINER)


async def test_a_pod_that_is_not_taken(node: Node) -> None:
    """It is Failed with the reason, which an operator can read, and ends with its manifest."""
    pod = pod_json(securityContext=TUNED)
    handle = await node.start(pod)
    shown = await node.until(pod, lambda one: one.phase == "Failed")
    said = 'Pod was rejected: forbidden sysctl: "kernel.sem" not allowlisted'
    assert (shown.reason, shown.message) == ("SysctlForbidden", said)
    answer = await handle.query(names.EXPLAIN, result_type=Explanation)
    assert any(said in str(one.text) for one in answer.sentences)
    assert not [name for name in BEGUN if node.runtime.named(name)]
    await handle.signal(names.DELETION_REQUESTED, DeletionRequested("file", "ManifestRemoved", "web.yaml is gone"))
    outcome = await handle.result()
    assert (outcome.phase, outcome.reason, outcome.message) == ("Failed", "SysctlForbidden", said)
    assert not [name for name in BEGUN if node.runtime.named(name)]


async def test_a_node_that_allows_it(node: Node) -> None:
    """It runs the same pod."""
    pod = pod_json(securityContext=TUNED)
    await node.start(pod, replace(QUICK, allowed_unsafe_sysctls=("kernel.sem",)))
    await node.until(pod, lambda one: one.ready)
