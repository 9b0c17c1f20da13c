"""Does a running poller signal a changed object, also if it changed while no poller ran?"""

from dataclasses import replace

from tests.worker.poller.snapshots import snapshot, write
from tests.worker.poller.test_object_watch import APP, KEY, put
from tests.worker.processes.poller_node import Node, heard
from worker.poller.object_watch import versions_of


async def test_a_pod_is_told_of_what_changed_and_of_what_it_missed(node: Node) -> None:
    """At once by a kernel event; after a restart of the poller by comparing."""
    folder = node.root / "objects"
    put(folder, "default/configmaps/app.yaml")
    async with node.poller():
        node.write("web.yaml")
        handle = await node.handle()
        assert await heard(handle, 1) == ["listed"]
        uid = handle.id.rsplit("/", 1)[1]
        shown = replace(
            snapshot(uid, sandbox_id="", node=node.name, name=f"web-{node.name}"),
            workflow_id=handle.id,
            objects={APP: versions_of(folder)[KEY]},
        )
        write(node.root, shown)
        put(folder, "default/configmaps/app.yaml", "another")
        assert (await heard(handle, 2))[1:] == [f"objects {APP}"]
    put(folder, "default/configmaps/app.yaml", "a third")
    async with node.poller():
        told = await heard(handle, 5)
    assert told.count(f"objects {APP}") == 2
