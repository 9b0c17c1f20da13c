"""Rules about containers: names, images, ports, environment.

Source: pkg/apis/core/validation/validation.go, validateContainers, validateInitContainers and what they call. Each
function yields the errors that it finds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import duplicate, invalid, not_supported, required
from workflows.decide.manifest.validation.containers.environment import validate_environment
from workflows.decide.manifest.validation.containers.lifecycle import refuse_lifecycle, validate_lifecycle
from workflows.decide.manifest.validation.containers.probes import refuse_probes, validate_probes
from workflows.decide.manifest.validation.containers.requirements import validate_resources
from workflows.decide.manifest.validation.containers.restart_policy import validate_restart_policy

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")

Container = Mapping[str, Any]

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")


def validate_containers(
    containers: Sequence[Container], path: str, *, grace: int, os: str | None = None
) -> Iterator[str]:
    """Validate the containers; host ports must be unique. `grace` is the pod's, in seconds, `os` its spec.os.name."""
    if not containers:
        yield required(path)
    taken: set[str] = set()
    for index, container in enumerate(containers):
        yield from validate_container(container, f"{path}[{index}]")
        yield from validate_unique_name(container, f"{path}[{index}]", taken)
        yield from validate_lifecycle(container, f"{path}[{index}]", grace=grace, os=os)
        yield from validate_probes(container, f"{path}[{index}]")
    yield from _host_port_conflicts(containers, path)


def validate_init_containers(
    containers: Sequence[Container], others: Sequence[Container], path: str, *, grace: int, os: str | None = None
) -> Iterator[str]:
    """Validate the init containers; `others` share their names but not their ports, as all of them run one by one."""
    taken = {name for other in others if (name := other.get("name"))}
    for index, container in enumerate(containers):
        yield from validate_container(container, f"{path}[{index}]")
        yield from validate_unique_name(container, f"{path}[{index}]", taken)
        yield from _host_port_conflicts([container], path, first=index)
        if container.get("restartPolicy") == "Always":
            yield from validate_lifecycle(container, f"{path}[{index}]", grace=grace, os=os)
            yield from validate_probes(container, f"{path}[{index}]")
        else:
            yield from refuse_lifecycle(container, f"{path}[{index}]")
            yield from refuse_probes(container, f"{path}[{index}]")


def validate_container(container: Container, path: str) -> Iterator[str]:
    """Validate what containers of every kind have in common (validateContainerCommon)."""
    if name := container.get("name"):
        yield from (invalid(f"{path}.name", name, one) for one in names.dns_label(name))
    else:
        yield required(f"{path}.name")
    image = container.get("image", "")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for field, known in (("terminationMessagePolicy", _MESSAGE_POLICIES), ("imagePullPolicy", PULL_POLICIES)):
        if (value := container[field]) not in known:
            yield not_supported(f"{path}.{field}", value, known)
    yield from _ports(container.get("ports", ()), f"{path}.ports")
    yield from validate_environment(container, path)
    yield from validate_resources(container.get("resources", {}), f"{path}.resources")
    yield from validate_restart_policy(container, path)


def validate_unique_name(container: Container, path: str, taken: set[str]) -> Iterator[str]:
    """Reject a name that is taken, and take one that is not."""
    name = container.get("name")
    if name and name in taken:
        yield duplicate(f"{path}.name", name)
    elif name:
        taken.add(name)


def _ports(ports: Sequence[Mapping[str, Any]], path: str) -> Iterator[str]:
    taken: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if name := port.get("name"):
            faults = list(names.port_name(name))
            yield from (invalid(f"{here}.name", name, one) for one in faults)
            if not faults and name in taken:
                yield duplicate(f"{here}.name", name)
            taken.add(name)
        if not port.get("containerPort"):
            yield required(f"{here}.containerPort")
        for field in ("containerPort", "hostPort"):
            if number := port.get(field):
                yield from (invalid(f"{here}.{field}", number, one) for one in names.port_number(number))
        if (protocol := port["protocol"]) not in _PROTOCOLS:
            yield not_supported(f"{here}.protocol", protocol, _PROTOCOLS)


def _host_port_conflicts(containers: Sequence[Container], path: str, first: int = 0) -> Iterator[str]:
    taken: set[str] = set()
    for index, container in enumerate(containers, start=first):
        for number, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            place = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if place in taken:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", place)
            taken.add(place)
