"""Rules about hook annotations (`hook_terms`).

They are strict: an unknown annotation of the domain, an unknown container and an unknown key are each rejected by path.
`probes` validates handlers.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from proto.temporal.hooks import Hook
from workflows.decide.manifest.defaults.defaults import default_handler
from workflows.decide.manifest.fields.field_errors import Key, forbidden, invalid, key_path, not_supported, required
from workflows.decide.manifest.fields.structure import read_part
from workflows.decide.manifest.fields.supported import HOOK_ANNOTATION
from workflows.decide.manifest.hook_terms import DOMAIN, HANDLERS, OWN_HOOKS
from workflows.decide.manifest.validation.containers.probes import validate_handler

Fields = Mapping[str, Any]

_HOOKS: Final = tuple(sorted(hook.value for hook in Hook))
_LONGEST: Final = 24 * 60 * 60  # seconds
_BOUNDS: Final = {
    "timeoutSeconds": _LONGEST,
    "maxAttempts": 100,
    "initialSeconds": _LONGEST,
    "maxSeconds": _LONGEST,
    "factor": 100,
}


def validate_hook_annotations(pod: Fields) -> Iterator[str]:
    """Validate every annotation about a hook; others are ignored."""
    spec = pod["spec"]
    containers = {one.get("name"): one for one in (*spec.get("initContainers", ()), *spec.get("containers", ()))}
    for name, text in pod["metadata"].get("annotations", {}).items():
        prefix, _, container = name.partition("/")
        if not prefix.lower().endswith(f".{DOMAIN}"):
            continue
        steps = ("metadata", "annotations", Key(name))
        hook = prefix[: -len(DOMAIN) - 1]
        if hook not in _HOOKS:
            yield not_supported(key_path(steps), hook, _HOOKS)
        elif container not in containers:
            yield invalid(key_path(steps), container, "must be the name of one of the pod's containers")
        else:
            yield from _annotation(Hook(hook), text, steps, containers[container])


def _annotation(hook: Hook, text: str, steps: tuple[str, ...], container: Fields) -> Iterator[str]:
    path = key_path(steps)
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield invalid(path, text, f"must be one JSON object: {error}")
        return
    if not isinstance(said, dict):
        yield invalid(path, text, "must be one JSON object")
        return
    said, faults = read_part(said, HOOK_ANNOTATION, steps)
    yield from faults
    if not faults:
        yield from _handler(hook, said, path, container)
        yield from _numbers(said, path)


def _handler(hook: Hook, said: Fields, path: str, container: Fields) -> Iterator[str]:
    """Validate the handler: here for preStart and postStop, in the spec for postStart and preStop."""
    given = [kind for kind in HANDLERS if kind in said]
    if hook not in OWN_HOOKS:
        if not container.get("lifecycle", {}).get(hook):
            yield invalid(path, container["name"], f"must be the name of a container that has a {hook} hook")
        for field in (*given, *(one for one in ("image",) if one in said)):
            yield forbidden(f"{path}.{field}", f"may not be set for {hook}, whose handler is in the spec")
        return
    if not given:
        yield required(path, "must specify a handler type")
        return
    yield from validate_handler(given[0], default_handler(dict(said))[given[0]], f"{path}.{given[0]}", container)
    for kind in given[1:]:
        yield forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    if "image" in said and "exec" not in said:
        yield forbidden(f"{path}.image", "may not be set without exec")
    elif "image" in said and said["image"] != said["image"].strip():
        yield invalid(f"{path}.image", said["image"], "must not have leading or trailing whitespace")


def _numbers(said: Fields, path: str) -> Iterator[str]:
    retry = said.get("retry", {})
    numbers = [("timeoutSeconds", said), *((f"retry.{one}", retry) for one in list(_BOUNDS)[1:])]
    for name, holder in numbers:
        last = name.rpartition(".")[2]
        if last in holder and not 1 <= holder[last] <= _BOUNDS[last]:
            yield invalid(f"{path}.{name}", holder[last], f"must be between 1 and {_BOUNDS[last]}, inclusive")
    if "maxSeconds" in retry and retry["maxSeconds"] < retry.get("initialSeconds", 1):
        detail = "must be greater than or equal to initialSeconds"
        yield invalid(f"{path}.retry.maxSeconds", retry["maxSeconds"], detail)
