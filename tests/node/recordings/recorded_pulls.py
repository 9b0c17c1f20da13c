"""The life of a pod that pulls with a secret, for `record_histories`."""

from tests.node.images.pull_nodes import pull_secret, pulling, served
from tests.node.kept_objects import put_object
from tests.node.tempolet_node import TempoletNode

LOGIN = "robot:recorded-canary-7Q"


def pull_secrets(node: TempoletNode) -> None:
    """Its secret is first missing, then has the wrong credentials, then the right ones; another of its secrets never exists."""
    with served(node.containerd, label="recorded", login=LOGIN, echoing=True) as registry:
        node.apply(pulling("pod", f"{registry.host}/team/app:1", "nowhere", "late"))
        node.until_pod("pod", lambda one: one.reason == "ErrImagePull", "the pull without a login")
        put_object(node, "secrets", "late", **pull_secret(registry.host, "robot:wrong-canary-7Q"))
        node.until_pod("pod", lambda one: "nowhere" in one.message and "late" not in one.message, "the wrong login")
        put_object(node, "secrets", "late", **pull_secret(registry.host, LOGIN))
        node.until_running("pod")
