"""Names of extended resources, which device plugins provide (pkg/apis/core/v1/helper/helpers.go)."""


def is_extended_resource(name: str) -> bool:
    """Report whether a resource is neither Kubernetes' own nor a quota's (IsExtendedResourceName)."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")
