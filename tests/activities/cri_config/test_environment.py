"""Does a container's environment come out as the kubelet's expansion rules say?"""

from typing import Any

import pytest

from activities.cri_config.environment import (
    Environment,
    Sources,
    UnresolvedVariable,
    expand,
    resolve_environment,
    with_device_variables,
)

KNOWN = {"A": "one", "B": "two", "EMPTY": "", "NESTED": "$(A)"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="nothing-to-expand"),
        pytest.param("$(A) and $(B)", "one and two", id="each-reference"),
        pytest.param("$(A)$(B)", "onetwo", id="side-by-side"),
        pytest.param("$(UNKNOWN)", "$(UNKNOWN)", id="an-unknown-name-stays-as-written"),
        pytest.param("$(EMPTY)x", "x", id="an-empty-value-is-a-value"),
        pytest.param("$$(A)", "$(A)", id="an-escaped-reference-loses-one-dollar"),
        pytest.param("$$$(A)", "$one", id="escape-then-reference"),
        pytest.param("$$$$(A)", "$$(A)", id="two-escapes"),
        pytest.param("$(NESTED)", "$(A)", id="a-value-is-not-expanded-again"),
        pytest.param("$(A", "$(A", id="an-open-reference-stays"),
        pytest.param("$(A$$", "$(A$", id="an-open-reference-does-not-hide-an-escape"),
        pytest.param("$(A $(B)", "$(A $(B)", id="the-name-runs-to-the-first-closing-bracket"),
        pytest.param("$()", "$()", id="an-empty-name-is-unknown"),
        pytest.param("$A ${B}", "$A ${B}", id="shell-words-are-the-shells"),
        pytest.param("cost: 5$", "cost: 5$", id="a-dollar-at-the-end"),
        pytest.param("$(A\n)", "$(A\n)", id="a-name-may-hold-a-line-break-and-is-unknown"),
        pytest.param("ä$(A)ö", "äoneö", id="beyond-ascii"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    """The rows of the kubelet's expansion, and what users write by mistake."""
    assert expand(text, KNOWN) == expected


def resolved(*entries: dict[str, Any]) -> dict[str, str]:
    """Resolve variables that are declared in place."""
    return dict(resolve_environment({"env": entries}, Sources(pod={})).values)


def test_a_reference_sees_only_what_stands_above() -> None:
    """Order of declaration counts, also for the order in the container."""
    entries = [
        {"name": "LATE", "value": "$(EARLY)"},
        {"name": "EARLY", "value": "1"},
        {"name": "AFTER", "value": "$(EARLY)2"},
        {"name": "NONE"},
    ]
    assert list(resolved(*entries).items()) == [
        ("LATE", "$(EARLY)"),
        ("EARLY", "1"),
        ("AFTER", "12"),
        ("NONE", ""),
    ]


def test_of_a_name_declared_twice_the_last_counts() -> None:
    """The second one may build on the first."""
    assert resolved({"name": "P", "value": "a"}, {"name": "P", "value": "$(P)b"}) == {"P": "ab"}


def test_variables_of_device_plugins_come_first_and_give_way() -> None:
    """As in the kubelet's list, of which the runtime takes the last; what is long enough to be a secret is confidential."""
    own = Environment({"A": "own", "B": "b"}, frozenset({"B"}))
    found = with_device_variables(own, {"GPU": "0", "A": "of-the-plugin", "KEY": "0123456789"})
    assert list(found.values.items()) == [("GPU", "0"), ("KEY", "0123456789"), ("A", "own"), ("B", "b")]
    assert found.confidential == {"B", "KEY"}
    with pytest.raises(UnresolvedVariable, match="env GPU: its value holds a NUL byte"):
        with_device_variables(own, {"GPU": "s3cret\0"})
