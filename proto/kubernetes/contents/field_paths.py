"""How a field of a pod is named where the pod is told about itself (pkg/fieldpath/fieldpath.go)."""


def split_subscript(path: str) -> tuple[str, str | None]:
    """Take `metadata.labels['key']` apart; a path without a key stays whole (SplitMaybeSubscriptedPath)."""
    field, opened, key = path.removesuffix("']").partition("['")
    return (field, key) if path.endswith("']") and opened and field else (path, None)
