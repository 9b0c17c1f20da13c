"""Rules about a container's probes.

Source: pkg/apis/core/validation/validation.go, validateProbe and what it calls. One rule is stricter: a port's name
must be one of the container's, because a probe of an unknown port never has a verdict.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import forbidden, invalid, not_supported, required

Fields = Mapping[str, Any]

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_NUMBERS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES: Final = ("HTTP", "HTTPS")
_LONGEST_GRACE: Final = 2**31 - 1  # seconds; more does not fit the runtime's timers
_HEADER_NAME: Final = re.compile("[-A-Za-z0-9]+", re.ASCII)
_NO_HEADER_NAME: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-'"
    " (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
)


def validate_probes(container: Fields, path: str) -> Iterator[str]:
    """Validate a regular container's probes."""
    for field in PROBES:
        if (probe := container.get(field)) is not None:
            yield from _probe(probe, field, f"{path}.{field}", container)


def refuse_probes(container: Fields, path: str) -> Iterator[str]:
    """Reject the probes of an init container that is no sidecar."""
    for field in PROBES:
        if container.get(field) is not None:
            yield forbidden(f"{path}.{field}", "may not be set for init containers without restartPolicy=Always")


def _probe(probe: Fields, field: str, path: str, container: Fields) -> Iterator[str]:
    yield from _handlers(probe, path, container)
    for name in _NUMBERS:
        if (number := probe.get(name, 0)) < 0:
            yield invalid(f"{path}.{name}", number, "must be greater than or equal to 0")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if grace is not None and grace > _LONGEST_GRACE:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, f"must be less than or equal to {_LONGEST_GRACE}")
    if field == "readinessProbe":
        if grace is not None:
            yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must not be set for readinessProbes")
    elif (threshold := probe["successThreshold"]) != 1:
        yield invalid(f"{path}.successThreshold", threshold, "must be 1")


def _handlers(probe: Fields, path: str, container: Fields) -> Iterator[str]:
    given = [name for name in _HANDLERS if probe.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    yield from validate_handler(given[0], probe[given[0]], f"{path}.{given[0]}", container)
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def validate_handler(kind: str, action: Fields, path: str, container: Fields) -> Iterator[str]:
    """Validate a handler."""
    match kind:
        case "exec":
            if not action.get("command"):
                yield required(f"{path}.command")
        case "httpGet":
            yield from _http_get(action, path, container)
        case "tcpSocket":
            yield from _port(action.get("port", 0), f"{path}.port", container)
        case "grpc":
            port = action.get("port", 0)
            yield from (invalid(f"{path}.port", port, one) for one in names.port_number(port))


def _http_get(action: Fields, path: str, container: Fields) -> Iterator[str]:
    if not action.get("path"):
        yield required(f"{path}.path")
    yield from _port(action.get("port", 0), f"{path}.port", container)
    if (scheme := action["scheme"]) not in _SCHEMES:
        yield not_supported(f"{path}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders", ()):
        if not _HEADER_NAME.fullmatch(name := header.get("name", "")):
            yield invalid(f"{path}.httpHeaders", name, _NO_HEADER_NAME)


def _port(port: int | str, path: str, container: Fields) -> Iterator[str]:
    """Validate a port's number or name."""
    faults = list(names.port_name(port) if isinstance(port, str) else names.port_number(port))
    yield from (invalid(path, port, one) for one in faults)
    if isinstance(port, str) and not faults and port not in {one.get("name") for one in container.get("ports", ())}:
        yield invalid(path, port, "must be the name of one of the container's ports")
