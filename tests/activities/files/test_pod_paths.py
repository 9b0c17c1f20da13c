"""Do a pod's paths follow the kubelet's layout, and can a manifest's words lead them elsewhere?"""

from pathlib import Path

import pytest

from activities.files.pod_paths import PodPaths, UnsafeName, plain_name
from proto.temporal.pod import PodKey


def paths(namespace: str = "prod", name: str = "web", uid: str = "uid-1") -> PodPaths:
    """Return the paths of a pod on a node with the kubelet's folders."""
    return PodPaths(Path("/var/lib/kubelet"), Path("/var/log/pods"), PodKey(namespace, name, uid))


def test_layout() -> None:
    """As the kubelet's kubelet_getters.go and helpers.go have it."""
    assert paths().directory == Path("/var/lib/kubelet/pods/uid-1")
    assert paths().etc_hosts == Path("/var/lib/kubelet/pods/uid-1/etc-hosts")
    assert paths().logs == Path("/var/log/pods/prod_web_uid-1")
    assert paths().container_logs("main") == Path("/var/log/pods/prod_web_uid-1/main")
    assert paths().termination_message("main", 31) == Path("/var/lib/kubelet/pods/uid-1/containers/main/0000001f")


@pytest.mark.parametrize(
    "word",
    [
        pytest.param("", id="empty"),
        pytest.param(".", id="here"),
        pytest.param("..", id="up"),
        pytest.param("../../etc", id="far-up"),
        pytest.param("/etc", id="absolute"),
        pytest.param("a/b", id="two-parts"),
        pytest.param("a\0b", id="nul"),
        pytest.param("a\n", id="line-break"),
        pytest.param("-rf", id="an-option"),
        pytest.param("ä", id="beyond-ascii"),
        pytest.param("a" * 254, id="too-long"),
    ],
)
def test_a_word_that_is_no_plain_name_makes_no_path(word: str) -> None:
    """Root removes what these paths name."""
    with pytest.raises(UnsafeName, match="not a plain name"):
        plain_name(word, "pod uid")
    with pytest.raises(UnsafeName):
        _ = paths(uid=word).directory
    for odd in (paths(uid=word), paths(name=word), paths(namespace=word)):
        with pytest.raises(UnsafeName):
            _ = odd.logs
    with pytest.raises(UnsafeName):
        paths().container_logs(word)
