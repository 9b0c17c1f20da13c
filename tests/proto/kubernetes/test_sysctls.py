"""Which sysctls may a pod set, which may an operator allow, and which namespace is one in?

The rows are the kubelet's (pkg/kubelet/sysctl allowlist_test.go, safe_sysctls_test.go, component-helpers namespace_test.go).
"""

import pytest

from proto.kubernetes.sysctls import (
    SAFE,
    Namespace,
    is_listable,
    is_name,
    kernel_of,
    namespace_of,
    normalized,
    safe_sysctls,
    why_forbidden,
)

ALLOWED = (*safe_sysctls("6.1.0"), "kernel.msg*", "kernel.sem", "net.b.*")


@pytest.mark.parametrize(
    ("name", "host_network", "host_ipc", "why"),
    [
        pytest.param("kernel.shm_rmid_forced", False, False, "", id="a-safe-one"),
        pytest.param("kernel/shm_rmid_forced", False, False, "", id="a-safe-one-with-slashes"),
        pytest.param("net.ipv4.ip_local_port_range", False, False, "", id="a-safe-one-of-the-network"),
        pytest.param("kernel.msgmax", False, False, "", id="by-its-beginning"),
        pytest.param("kernel/sem", False, False, "", id="an-allowed-one-with-slashes"),
        pytest.param(
            "kernel.shm_rmid_forced",
            False,
            True,
            '"kernel.shm_rmid_forced" not allowed with host IPC enabled',
            id="the-node's-shared-memory",
        ),
        pytest.param(
            "net.ipv4.ip_local_port_range",
            True,
            False,
            '"net.ipv4.ip_local_port_range" not allowed with host Net enabled',
            id="the-node's-network",
        ),
        pytest.param("foo", False, False, '"foo" not allowlisted', id="nobody-knows-it"),
        pytest.param("net.a.b.c", False, False, '"net.a.b.c" not allowlisted', id="not-in-the-list"),
        pytest.param(
            "net.ipv4.ip_local_port_range.a.b.c",
            False,
            False,
            '"net.ipv4.ip_local_port_range.a.b.c" not allowlisted',
            id="a-safe-one-is-no-beginning",
        ),
        pytest.param(
            "kernel.msgmax", False, True, '"kernel.msgmax" not allowed with host IPC enabled', id="an-allowed-beginning"
        ),
        pytest.param("kernel.sem", False, True, '"kernel.sem" not allowed with host IPC enabled', id="an-allowed-one"),
        pytest.param(
            "net.b.c", True, False, '"net.b.c" not allowed with host Net enabled', id="allowed-of-the-network"
        ),
    ],
)
def test_what_a_pod_may_set(name: str, host_network: bool, host_ipc: bool, why: str) -> None:
    """With the kubelet's message for a rejected pod."""
    assert why_forbidden(name, ALLOWED, host_network=host_network, host_ipc=host_ipc) == why


@pytest.mark.parametrize(
    ("release", "safe"),
    [
        pytest.param("", 5, id="not-known"),
        pytest.param("3.18.0-957.27.2.el7.x86_64", 6, id="an-old-one"),
        pytest.param("4.5.0", 9, id="with-keepalive"),
        pytest.param("5.15.0-75-generic", len(SAFE), id="a-new-one"),
    ],
)
def test_a_kernel_says_what_is_safe(release: str, safe: int) -> None:
    """Those of the list that are namespaced in its version."""
    assert len(safe_sysctls(release)) == safe
    assert safe_sysctls(release)[:5] == tuple(name for name, _ in SAFE[:5])


@pytest.mark.parametrize(
    ("text", "listable", "known"),
    [
        pytest.param("kernel.msg*", True, True, id="a-beginning"),
        pytest.param("kernel/msg*", True, True, id="with-slashes"),
        pytest.param("kernel.sem", True, True, id="a-name"),
        pytest.param(" kernel.msg*", False, False, id="a-space-before"),
        pytest.param("kernel.msg* ", False, True, id="a-space-behind"),
        pytest.param("net.-", False, True, id="a-lone-dash"),
        pytest.param("net.*.foo", False, True, id="a-star-in-between"),
        pytest.param("net.*/foo", False, True, id="a-star-before-a-slash"),
        pytest.param("foo", True, False, id="the-whole-node's"),
        pytest.param("foo*", True, False, id="a-beginning-of-the-whole-node's"),
        pytest.param("a" * 254, False, False, id="too-long"),
    ],
)
def test_what_an_operator_may_list(text: str, listable: bool, known: bool) -> None:
    """A name or a prefix of names of namespaced sysctls."""
    assert (is_listable(text), namespace_of(text) is not None) == (listable, known)


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        pytest.param("kernel.shm_rmid_forced", Namespace.IPC, id="shared-memory"),
        pytest.param("fs.mqueue.msg_max", Namespace.IPC, id="queues"),
        pytest.param("net/ipv4/conf/all/x", Namespace.NET, id="network"),
        pytest.param("kernel.shm.a", None, id="no-beginning-of-shared-memory"),
        pytest.param("kernel.hostname", None, id="none-that-is-known"),
    ],
)
def test_namespaces(name: str, namespace: Namespace | None) -> None:
    """By the whole name, or by a prefix."""
    assert namespace_of(name) is namespace


def test_names() -> None:
    """Dots and slashes separate the parts; the first separator determines which is which."""
    assert is_name("net/ipv4/conf/eno2.100/rp_filter")
    assert not is_name("a..b")
    assert not is_name("*")
    assert normalized("net/ipv4/conf/eno2.100/rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
    assert normalized("net.ipv4.conf.eno2/100.rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
    assert (normalized(""), normalized("a")) == ("", "a")
    assert (kernel_of("6.18.44-x"), kernel_of("linux")) == ((6, 18), None)
