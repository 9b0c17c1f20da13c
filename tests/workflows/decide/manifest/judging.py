"""Validates a manifest as the poller does, for tests that combine fields, defaults and rules."""

from typing import Any

from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod


def validated(manifest: dict[str, Any]) -> tuple[str, ...]:
    """Decode, default and validate a pod as the poller does."""
    read = read_structure(manifest, POD)
    return (*read.faults, *read.not_yet) or validate_pod(default_pod(read.content))
