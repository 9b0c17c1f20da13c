"""Is a pod's host called as the kubelet would call it? The rows are those of its TestGeneratePodHostNameAndDomain."""

from typing import Any

import pytest

from activities.network.hostnames import HostnameTooLong, kernel_hostname, pod_hostname

FQDN = "custom.sub.default.svc.cluster.local"


def pod(name: str = "test-pod", **spec: Any) -> dict[str, Any]:
    """Return a pod with this spec."""
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(pod(), ("test-pod", ""), id="the-pods-name"),
        pytest.param(pod(hostname="custom"), ("custom", ""), id="hostname-goes-first"),
        pytest.param(pod(subdomain="sub"), ("test-pod", "sub.default.svc.cluster.local"), id="subdomain"),
        pytest.param(pod(hostname="custom", subdomain="sub"), ("custom", "sub.default.svc.cluster.local"), id="both"),
        pytest.param(
            pod(hostname="custom", subdomain="sub", hostnameOverride="over.ride"), ("over.ride", ""), id="override"
        ),
        pytest.param(pod(hostnameOverride="a" * 62 + ".b"), ("a" * 62, ""), id="an-override-is-cut-too"),
        pytest.param(pod("a" * 63), ("a" * 63, ""), id="63-characters-fit"),
        pytest.param(pod("a" * 65), ("a" * 63, ""), id="longer-is-cut"),
        pytest.param(pod("a" * 61 + ".-b"), ("a" * 61, ""), id="a-cut-name-does-not-end-in-a-mark"),
    ],
)
def test_names(given: dict[str, Any], expected: tuple[str, str]) -> None:
    """The name and its domain."""
    assert pod_hostname(given, "cluster.local") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(pod(hostname="custom", subdomain="sub"), "custom", id="the-short-name"),
        pytest.param(pod(hostname="custom", subdomain="sub", setHostnameAsFQDN=True), FQDN, id="all-of-it-where-asked"),
        pytest.param(pod(hostname="custom", setHostnameAsFQDN=True), "custom", id="without-a-domain-there-is-no-more"),
        pytest.param(pod("a" * 31, subdomain="sub", setHostnameAsFQDN=False), "a" * 31, id="not-asked"),
    ],
)
def test_what_the_kernel_is_told(given: dict[str, Any], expected: str) -> None:
    """The host's name in the pod."""
    assert kernel_hostname(given, "cluster.local") == expected


def test_a_name_that_the_kernel_does_not_take_is_told() -> None:
    """64 characters fit, one more does not; the words are the kubelet's."""
    rest = ".sub.default.svc.cluster.local"
    fits = pod("a" * (64 - len(rest)), subdomain="sub", setHostnameAsFQDN=True)
    assert len(kernel_hostname(fits, "cluster.local")) == 64
    name = "a" * (65 - len(rest))
    with pytest.raises(HostnameTooLong) as raised:
        kernel_hostname(pod(name, subdomain="sub", setHostnameAsFQDN=True), "cluster.local")
    assert str(raised.value) == (
        f"failed to construct FQDN from pod hostname and cluster domain, FQDN {name}{rest} is too long"
        " (64 characters is the max, 65 characters requested)"
    )
