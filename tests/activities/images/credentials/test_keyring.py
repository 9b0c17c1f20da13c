"""Which logins fit an image, and in which order are they tried? The rows are the kubelet's own (keyring_test.go)."""

import pytest

from activities.clients.registry_login import Login
from activities.images.credentials.keyring import Keyring, SecretSource
from activities.images.credentials.locations import InvalidLocation, matches, parse_location


@pytest.mark.parametrize(
    ("glob", "target", "fits"),
    [
        ("*.kubernetes.io", "prefix.kubernetes.io", True),
        ("prefix.*.io", "prefix.kubernetes.io", True),
        ("prefix.kubernetes.*", "prefix.kubernetes.io", True),
        ("*-good.kubernetes.io", "prefix-good.kubernetes.io", True),
        ("*.kubernetes.io/blah", "prefix.kubernetes.io/blah", True),
        ("prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", True),
        ("*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah", True),
        ("prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar", True),
        ("*kubernetes.io", "kubernetes.io", True),
        ("p*f*x.kubernetes.io", "prefix.kubernetes.io", True),
        ("a**b.io", "ab.io", True),
        ("a*a.io", "a.io", False),
        ("a*bc*cd.io", "abcd.io", False),
        ("*.*.*.kubernetes.io", "a.b.c.kubernetes.io", True),
        ("[::1]:5000", "[::1]:5000/app", True),
        ("*.kubernetes.io", "kubernetes.io", False),
        ("*.*.kubernetes.io", "prefix.kubernetes.io", False),
        ("*.*.kubernetes.io", "kubernetes.io", False),
        ("*kubernetes.io", "a.kubernetes.io", False),
        ("kubernetes.io", "kubernetes.com", False),
        ("k*.io", "quay.io", False),
        ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", False),
        ("prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar", False),
        ("[::1]:5000", "[::2]:5000/app", False),
        ("bad host", "bad host", False),
    ],
)
def test_locations(glob: str, target: str, fits: bool) -> None:
    """`*` stands for a part of the host, the path for all below it; ports are the same or not."""
    assert matches(glob, target) is fits


@pytest.mark.parametrize("text", ["a b", "host:port", "a\0b", "ho\nst"])
def test_no_location(text: str) -> None:
    """A provider's configuration with one is refused."""
    with pytest.raises(InvalidLocation):
        parse_location(text)


def found(key: str, image: str) -> bool:
    """Return whether the credentials under a key match an image."""
    keyring = Keyring()
    keyring.add({key: Login(username="foo", password="bar", email="e")})
    return [one.login.password for one in keyring.lookup(image)] == ["bar"]


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("https://hello.kubernetes.io", "hello.kubernetes.io"),
        ("https://*.docker.io", "prefix.docker.io"),
        ("https://prefix.docker.*", "prefix.docker.io"),
        ("https://*.docker.io/path", "prefix.docker.io/path"),
        ("https://prefix.*.io/path", "prefix.docker.io/path/subpath"),
        ("https://*.docker.io:8888", "prefix.docker.io:8888"),
        ("https://*.docker.io/path:1111", "prefix.docker.io/path:1111"),
        ("https://*.docker.io/v1/", "prefix.docker.io/path:1111"),
        ("https://*.docker.io/v2/", "prefix.docker.io/path:1111"),
        ("http://prefix.docker.io:1111", "prefix.docker.io:1111/path"),
        ("prefix.docker.io:1111", "prefix.docker.io:1111/path"),
        ("*.docker.io:1111", "prefix.docker.io:1111/path"),
        ("https://user@registry.io/x?y#z", "registry.io/x"),
    ],
)
def test_a_login_that_fits(key: str, target: str) -> None:
    """With and without a scheme, and with docker's version in its path."""
    assert found(key, f"{target}/foo/bar")


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("https://hello.kubernetes.io", "world.mesos.org"),
        ("https://*.docker.com", "prefix.docker.io"),
        ("https://suffix.*.io", "prefix.docker.io"),
        ("https://prefix.docker.c*", "prefix.docker.io"),
        ("https://prefix.*.io/path:1111", "prefix.docker.io/path/subpath:1111"),
        ("https://index.docker.io/v1/", "world.mesos.org"),
    ],
)
def test_a_login_that_does_not_fit(key: str, target: str) -> None:
    """It is for another registry."""
    assert not found(key, f"{target}/foo/bar")


@pytest.mark.parametrize("key", ["https://index.docker.io/v1/", "index.docker.io", "docker.io"])
def test_the_hub_has_many_names(key: str) -> None:
    """`docker login` writes the oldest of them."""
    assert found(key, "docker.io/library/busybox")


def test_the_most_specific_goes_first_and_all_are_tried() -> None:
    """For rotation: which of two is right only the registry can say."""
    keyring = Keyring()
    secret = SecretSource("default", "pull", "u1")
    keyring.add({"r.io": Login(password="host"), "r.io/team": Login(password="team")})
    keyring.add({"r.io/team/": Login(password="slash"), "r.io": Login(password="second")}, secret)
    order = [(one.login.password, one.source) for one in keyring.lookup("r.io/team/app")]
    assert order == [("slash", secret), ("team", None), ("host", None), ("second", secret)]
