"""The annotations about a container's hooks: hooks that Kubernetes does not have, time limits and retries.

Read when a hook is due, and by `validation/hook_annotations.py` before a pod starts. There is one annotation for each
hook and container, `<hook>.tempolet.dev/<container>`. Its value is a JSON object: for preStart and postStop a handler,
for all four `timeoutSeconds` (of one try) and `retry`. Without annotations everything is as in Kubernetes.

On a pod of the API anybody who may patch the pod may write them, past the admission of its images and its spec. So there
an edit can only remove one (`without_new_hooks`).
"""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Final

from proto.temporal.hooks import Hook, HookRetry
from proto.temporal.pod import PodJson
from workflows.decide.manifest.defaults.defaults import default_handler

DOMAIN: Final = "tempolet.dev"
OWN_HOOKS: Final = (Hook.PRE_START, Hook.POST_STOP)
HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
TIMEOUT: Final = timedelta(seconds=30)
"""The default for one try of a preStart or postStop hook; postStart and preStop have none."""
INITIAL: Final = timedelta(seconds=1)
FACTOR: Final = 2
LONGEST: Final = timedelta(seconds=30)
SHORT: Final = 4096
"""Characters; longer annotations are rare, so only few of them are kept in memory."""


@dataclass(frozen=True, slots=True)
class HookTerms:
    """One annotation."""

    handler: PodJson = field(default_factory=dict)
    """Empty for postStart and preStop, whose handlers are in the spec."""
    image: str = ""
    """The image of an exec's container, if it is not that of the container itself."""
    timeout: timedelta | None = None
    retry: HookRetry | None = None


def annotation(name: str, hook: Hook) -> str:
    """Name the annotation of a container's hook."""
    return f"{hook}.{DOMAIN}/{name}"


def terms(pod: PodJson, name: str, hook: Hook) -> HookTerms | None:
    """Return what a pod's annotations say about a hook; None if there is none."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation(name, hook))
    if not text:
        return None
    return _read_short(text) if len(text) <= SHORT else _read_long(text)


def is_hook_annotation(name: str) -> bool:
    """Report whether an annotation is about a hook, or looks as if it were."""
    return name.partition("/")[0].lower().endswith(f".{DOMAIN}")


def without_new_hooks(old: PodJson, new: PodJson) -> PodJson:
    """Return an edited pod with those hook annotations that it still has, as they stood before the edit."""
    metadata = new["metadata"]
    annotations, before = metadata.get("annotations") or {}, old["metadata"].get("annotations") or {}
    kept = {
        name: before[name] if is_hook_annotation(name) else text
        for name, text in annotations.items()
        if name in before or not is_hook_annotation(name)
    }
    return new if kept == annotations else {**new, "metadata": {**metadata, "annotations": kept}}


def _read(text: str) -> HookTerms:
    """Read a valid annotation."""
    said = json.loads(text)
    handler = default_handler({kind: said[kind] for kind in HANDLERS if said.get(kind) is not None})
    seconds = said.get("timeoutSeconds")
    timeout = timedelta(seconds=seconds) if seconds else TIMEOUT if handler else None
    return HookTerms(handler, said.get("image") or "", timeout, _retry(said.get("retry") or {}))


_read_short: Final = lru_cache(maxsize=512)(_read)
"""Cached, because every decision asks. Both caches together hold at most 4 MiB of annotations."""
_read_long: Final = lru_cache(maxsize=8)(_read)


def _retry(said: PodJson) -> HookRetry | None:
    """Read a retry policy; None for a single try, as in Kubernetes."""
    most = said.get("maxAttempts") or 1
    if most == 1:
        return None
    initial = _seconds(said.get("initialSeconds")) or INITIAL
    longest = _seconds(said.get("maxSeconds")) or max(LONGEST, initial)
    return HookRetry(most, initial, said.get("factor") or FACTOR, longest)


def _seconds(number: int | None) -> timedelta | None:
    return timedelta(seconds=number) if number else None
