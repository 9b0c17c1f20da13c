"""Which texts name an image, and which tag does a name without one mean?"""

import pytest

from activities.images.access.image_names import InvalidImageName, repository, with_default_tag, without_tag

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param("busybox", "busybox:latest", id="short-name"),
        pytest.param("busybox:1.37", "busybox:1.37", id="tag-stays"),
        pytest.param(f"busybox@{DIGEST}", f"busybox@{DIGEST}", id="digest-stays"),
        pytest.param(f"busybox:1@{DIGEST}", f"busybox:1@{DIGEST}", id="tag-and-digest"),
        pytest.param("localhost:5000/app", "localhost:5000/app:latest", id="a-port-is-no-tag"),
        pytest.param("example.com/a/b__c/d-e.f", "example.com/a/b__c/d-e.f:latest", id="separators-in-a-path"),
        pytest.param("[2001:db8::1]:5000/app", "[2001:db8::1]:5000/app:latest", id="ipv6-registry"),
        pytest.param("Registry/app", "Registry/app:latest", id="capitals-make-a-registry"),
        pytest.param(
            "example.com/" + "a" * 255, "example.com/" + "a" * 255 + ":latest", id="a-registry-has-no-part-in-255"
        ),
        pytest.param("library/busybox", "library/busybox:latest", id="path-without-registry"),
    ],
)
def test_names(image: str, expected: str) -> None:
    """The name itself is passed on as it was written."""
    assert with_default_tag(image) == expected


@pytest.mark.parametrize(
    ("image", "whole", "written"),
    [
        ("busybox", "docker.io/library/busybox", "busybox"),
        ("busybox:1.37", "docker.io/library/busybox", "busybox"),
        (f"team/app:1@{DIGEST}", "docker.io/team/app", "team/app"),
        ("index.docker.io/busybox:1", "docker.io/library/busybox", "index.docker.io/busybox"),
        ("docker.io/busybox", "docker.io/library/busybox", "docker.io/busybox"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b", "localhost:5000/a/b"),
        ("[::1]:5000/a:1", "[::1]:5000/a", "[::1]:5000/a"),
    ],
)
def test_repositories(image: str, whole: str, written: str) -> None:
    """With the registry that is meant, by which logins are found; and as written, by which rights are kept."""
    assert (repository(image), without_tag(image)) == (whole, written)


@pytest.mark.parametrize(
    "image",
    [
        pytest.param("", id="empty"),
        pytest.param("BusyBox", id="capitals"),
        pytest.param("docker.io/BusyBox", id="capitals-in-the-path"),
        pytest.param("a" * 64, id="a-bare-id"),
        pytest.param("busybox:", id="empty-tag"),
        pytest.param("busybox:-x", id="tag-with-a-wrong-start"),
        pytest.param("busybox:" + "x" * 129, id="tag-too-long"),
        pytest.param("busybox@sha256:abc", id="short-digest"),
        pytest.param("busybox@md5:" + "a" * 32, id="unknown-digest"),
        pytest.param("busybox@sha256:" + "A" * 64, id="digest-in-capitals"),
        pytest.param("busy box", id="blank"),
        pytest.param("busybox\n", id="line-break"),
        pytest.param("busybox\0", id="nul"),
        pytest.param("x" * 5000, id="5000-characters"),
        pytest.param("http://example.com/app", id="a-url"),
        pytest.param("../busybox", id="a-path"),
        pytest.param("a/" * 200 + "a", id="too-long"),
        pytest.param("busybox:1:2", id="two-tags"),
    ],
)
def test_no_names(image: str) -> None:
    """InvalidImageName, before anything is asked of the runtime."""
    with pytest.raises(InvalidImageName, match="couldn't parse image name"):
        with_default_tag(image)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("busy box", "invalid reference format"),
        ("Busy/BOX:1", "invalid reference format: repository name (BOX) must be lowercase"),
        ("BusyBox", "invalid reference format: repository name (library/BusyBox) must be lowercase"),
        ("a" * 64, f"invalid repository name ({'a' * 64}), cannot specify 64-byte hexadecimal strings"),
    ],
)
def test_why_it_is_none_is_said_as_the_kubelet_does(image: str, why: str) -> None:
    """People search for these words (github.com/distribution/reference)."""
    with pytest.raises(InvalidImageName) as refused:
        with_default_tag(image)
    assert str(refused.value) == f'couldn\'t parse image name "{image}": {why}'
