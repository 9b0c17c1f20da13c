"""Keys of KubeletConfiguration about what pods may do to the node, validated as by the kubelet at start.

The rules are those of pkg/kubelet/sysctl/allowlist.go NewAllowlist.
"""

from collections.abc import Iterator

from proto.kubernetes.sysctls import LIST_PATTERN, LONGEST, is_listable, namespace_of
from worker.settings.kubelet.configuration import KubeletConfiguration
from worker.settings.user_namespaces import user_namespace_breaches


def security_breaches(kubelet: KubeletConfiguration) -> Iterator[str]:
    """List what is wrong with them."""
    yield from user_namespace_breaches(kubelet)
    for index, name in enumerate(kubelet["allowedUnsafeSysctls"] or ()):
        here = f"allowedUnsafeSysctls[{index}]: {name!r}"
        if not is_listable(name):
            yield f"{here} must have at most {LONGEST} characters and match {LIST_PATTERN}"
        elif namespace_of(name) is None:
            yield f"{here} is not known to be in a namespace: it would be set for the whole node"
