"""Is every setting of an operator read by some code?"""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

import worker
from worker.daemon.config import Dns, Logging, NodeConfig, Tracing
from worker.settings import tempolet_configuration as own
from worker.settings.flags import KEY_FLAGS
from worker.settings.images import ImagePulls
from worker.settings.kubelet.configuration import ACTED_ON, CLUSTER_KEYS
from worker.settings.kubelet.feature_gates import ACTED_ON as GATES_ACTED_ON
from worker.settings.kubelet.schema import default_values, leaves, load_schema

ROOM = Path(worker.__file__).parent


def attributes_read() -> Iterator[str]:
    """Return each attribute name that the worker's code reads, outside of the configuration itself."""
    for path in ROOM.rglob("*.py"):
        if "settings" in path.relative_to(ROOM).parts or path.name == "config.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                yield node.attr


def own_keys(section: type) -> Iterator[str]:
    """Return the leaves of our own file."""
    for name, kind in get_type_hints(section).items():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from own_keys(kind)
        else:
            yield name


@pytest.mark.parametrize("kind", [NodeConfig, ImagePulls, Dns, Tracing, Logging])
def test_every_field_is_read_somewhere(kind: type) -> None:
    """A setting that no code reads would be ignored in silence."""
    read = set(attributes_read())
    assert {one.name for one in fields(kind)} - read == set()


def test_every_key_of_our_own_is_read_somewhere() -> None:
    """`NodeConfig` gives some of them by a property of its own, and `up` takes one from the document."""
    read = set(attributes_read())
    by_property = {"payload_key_file", "token_file", "start_limit", "folder", "look_every"}
    assert by_property - {"token_file", "folder", "look_every"} <= read
    assert {"codec_token_file", "objects_dir", "image_policy"} <= read
    of_up = {"database_sync"}
    keys = set(own_keys(own.TempoletConfiguration))
    assert keys - read - by_property - of_up == set()


def test_what_is_said_to_be_acted_on_are_keys_of_the_kubelet() -> None:
    """A mistyped name there would suppress a warning."""
    known = {path for path, _ in leaves(default_values())} | set(load_schema().fields)
    known |= {"tracing.endpoint", "tracing.samplingRatePerMillion", "userNamespaces.idsPerPod"}  # without a default
    known |= {"memorySwap.swapBehavior", "authentication.x509.clientCAFile"}
    assert known >= ACTED_ON | CLUSTER_KEYS
    assert set(load_schema().feature_gates) >= set(GATES_ACTED_ON)


def test_every_flag_stands_for_a_key() -> None:
    """Flags and keys share their checks."""
    known = {path for path, _ in leaves(default_values())} | set(load_schema().fields)
    assert {flag.key for flag in KEY_FLAGS} <= known
