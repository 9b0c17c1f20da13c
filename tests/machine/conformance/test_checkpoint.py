"""Is a running container checkpointed by the node's API, with criu, and does it go on? Restoring is the runtime's."""

from typing import Final

import pytest

from tests.machine.joined.node import NAME, Joined, scope_of

SLEEP: Final = "trap 'exit 0' TERM; sleep 3600 & wait $!"


@pytest.mark.machine
def test_a_container_is_checkpointed_and_goes_on(node: Joined) -> None:
    """An archive of its processes, which only root reads; the same container runs on."""
    node.create("checkpointed", SLEEP)
    before = node.running("checkpointed")
    answer = node.plane.api.call("POST", f"/api/v1/nodes/{NAME}/proxy/checkpoint/default/checkpointed/main")
    (archive,) = answer["items"]
    assert node.machine.run(f"stat -c '%a %U' {archive}").stdout == "600 root\n"
    contents = node.machine.run(f"tar -tf {archive}").stdout.splitlines()
    assert {"config.dump", "spec.dump"} <= set(contents)
    assert any(one.startswith("checkpoint/pages-") for one in contents), contents
    after = node.running("checkpointed")
    assert scope_of(after) == scope_of(before)
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    node.machine.run(f"head -1 /sys/fs/cgroup{scope_of(after)}/cgroup.procs | grep .; rm {archive}")
    node.until_gone("checkpointed")
