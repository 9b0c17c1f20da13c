"""Paths of a pod's fields in the downward API (pkg/fieldpath/fieldpath.go)."""


def split_subscript(path: str) -> tuple[str, str | None]:
    """Split `metadata.labels['key']`; a path without a key stays whole (SplitMaybeSubscriptedPath)."""
    field, opened, key = path.removesuffix("']").partition("['")
    return (field, key) if path.endswith("']") and opened and field else (path, None)
