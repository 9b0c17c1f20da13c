"""Rules about volumes whose files come from elsewhere: an image.

Called by `volumes`; source: pkg/apis/core/validation/validation.go, validateImageVolumeSource.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.validation.field_errors import not_supported, required

Source = Mapping[str, Any]

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")


def image(source: Source, path: str) -> Iterator[str]:
    """Judge an image whose files a volume shows; whether it names one is for its pull to tell, as with containers."""
    if not source.get("reference"):
        yield required(f"{path}.reference")
    if (policy := source.get("pullPolicy")) not in PULL_POLICIES:
        yield not_supported(f"{path}.pullPolicy", policy, PULL_POLICIES)
