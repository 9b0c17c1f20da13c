"""Rules about a pod's own CSI volumes (pkg/apis/core/validation/validation.go validateCSIVolumeSource)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import invalid, required, too_long

_LONGEST_DRIVER: Final = 63


def validate_csi(source: Mapping[str, Any], path: str) -> Iterator[str]:
    """Validate a volume of type csi."""
    driver = source.get("driver", "")
    if not driver:
        yield required(f"{path}.driver")
    else:
        if len(driver.encode()) > _LONGEST_DRIVER:
            yield too_long(f"{path}.driver", _LONGEST_DRIVER)
        yield from (invalid(f"{path}.driver", driver, one) for one in names.dns_subdomain(driver.lower()))
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if not (name := secret.get("name", "")):
            yield required(f"{path}.nodePublishSecretRef.name")
        else:
            yield from (invalid(f"{path}.name", name, one) for one in names.dns_subdomain(name))
