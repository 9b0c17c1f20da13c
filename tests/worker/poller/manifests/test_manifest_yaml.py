"""Does YAML mean here what it means to Kubernetes?

Each row is what sigs.k8s.io/yaml 1.6 of Kubernetes 1.36.3 answers; ninety thousand random scalars and twenty-four
thousand random documents with anchors and merge keys were compared with it too. What is stricter is in `test_manifest`.
"""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from worker.documents.manifest_refusal import ManifestUnreadable
from worker.documents.manifest_yaml import plain_scalar, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("yes", True, id="yes"),
        pytest.param("Y", True, id="one-letter"),
        pytest.param("on", True, id="on"),
        pytest.param("Off", False, id="off"),
        pytest.param("tRue", "tRue", id="mixed-case-is-text"),
        pytest.param("~", None, id="tilde"),
        pytest.param("Null", None, id="null"),
        pytest.param("2026-01-01", "2026-01-01", id="a-date-stays-text"),
        pytest.param("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", id="a-time-stays-text"),
        pytest.param("12:30", "12:30", id="no-base-60"),
        pytest.param("190:20:30.5", "190:20:30.5", id="no-base-60-fractions"),
        pytest.param("0o17", 15, id="octal-as-in-yaml-1.2"),
        pytest.param("017", 15, id="octal-as-in-yaml-1.1"),
        pytest.param("08", 8, id="no-octal-digit"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("_1", "_1", id="underscore-first-is-text"),
        pytest.param("+1", 1, id="plus"),
        pytest.param("1e3", 1000, id="exponent-of-a-whole-number"),
        pytest.param("1.0", 1, id="whole-fraction"),
        pytest.param("0.1", 0.1, id="fraction"),
        pytest.param(".5", 0.5, id="no-leading-digit"),
        pytest.param("5.", 5, id="no-digit-behind-the-point"),
        pytest.param("1e", "1e", id="exponent-without-digits-is-text"),
        pytest.param("1e400", "1e400", id="too-large-for-a-float-is-text"),
        pytest.param("1e21", 1e21, id="too-large-to-be-written-out"),
        pytest.param("99999999999999999999", 100000000000000000000, id="beyond-64-bits-is-a-float"),
        pytest.param("18446744073709551615", 18446744073709551615, id="the-largest-integer"),
        pytest.param("0x1FFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF", id="hexadecimal-beyond-64-bits-is-text"),
        pytest.param("0o8", "0o8", id="no-octal-number-is-text"),
        pytest.param("=", "=", id="equals-sign"),
        pytest.param("1" * 5000, "1" * 5000, id="endless-digits-are-text"),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    """What an unquoted word means."""
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)
    assert read_yaml(f"a: {text}".encode()) == {"a": value}
    assert read_yaml(f"a: '{text}'".encode()) == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "yes: 1\n2: b\n0x10: c\n1.5: d", {"true": 1, "2": "b", "16": "c", "1.5": "d"}, id="keys-become-text"
        ),
        pytest.param(
            "x: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}", {"x": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}, id="merge"
        ),
        pytest.param(
            "x: &a {b: 1}\nd: {b: 3, <<: *a}", {"x": {"b": 1}, "d": {"b": 1}}, id="a-merge-overrides-the-keys-before-it"
        ),
        pytest.param(
            "x: &a {b: 1}\nz: &c {b: 2, e: 4}\nd: {<<: [*a, *c]}",
            {"x": {"b": 1}, "z": {"b": 2, "e": 4}, "d": {"b": 1, "e": 4}},
            id="of-several-merged-the-first-counts",
        ),
        pytest.param("d: {<<: {a: 1}}", {"d": {"a": 1}}, id="merge-of-a-mapping-in-place"),
        pytest.param('d: {"<<": 1}', {"d": {"<<": 1}}, id="a-quoted-merge-key-is-a-key"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}, id="an-anchor-may-move"),
        pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="alias"),
        pytest.param("&k a: 1\nb: *k", {"a": 1, "b": "a"}, id="anchored-key"),
        pytest.param("a: |\n  x\n  y\nb: >\n  x\n  y\n", {"a": "x\ny\n", "b": "x y\n"}, id="block-text"),
        pytest.param("--- \n...\n", None, id="nothing"),
    ],
)
def test_documents(text: str, value: object) -> None:
    """Keys, merges and anchors."""
    assert read_yaml(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("d: {<<: 1}", id="merge-of-a-number"),
        pytest.param("d: {<<: [1]}", id="merge-of-numbers"),
        pytest.param("x: &a [{b: 1}]\nd: {<<: *a}", id="merge-of-an-alias-of-a-list"),
        pytest.param("~: 1", id="null-as-a-key"),
        pytest.param("a: .nan", id="not-a-number"),
        pytest.param('a: "\\ud800"', id="half-a-surrogate-pair"),
        pytest.param("a: @x", id="reserved-sign"),
        pytest.param("a: {<<: {}, <<: {}}", id="two-merge-keys"),
    ],
)
def test_refused(text: str) -> None:
    """What Kubernetes cannot read either, and a second merge key."""
    with pytest.raises(ManifestUnreadable):
        read_yaml(text.encode())


text = st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029"))  # PyYAML writes these wrongly
texts = st.recursive(
    text, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=10
)


@given(st.dictionaries(text, texts, min_size=1), st.sampled_from(["'", '"', "|", ">"]), st.booleans())
def test_what_pyyaml_writes_comes_back(document: dict[str, Any], style: str, flow: bool) -> None:
    """Quoting, escapes, nesting and block text are read as they were meant."""
    written = yaml.safe_dump(
        document, allow_unicode=True, default_style=style, default_flow_style=flow, encoding="utf-8"
    )
    assert read_yaml(written) == document
