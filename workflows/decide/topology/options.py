"""The options of the topology manager, and what is wrong with them, in the kubelet's words.

The rules are pkg/kubelet/cm/topologymanager/policy_options.go. All options are stable, so the gates
TopologyManagerPolicyAlphaOptions and TopologyManagerPolicyBetaOptions change nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from proto.kubernetes.go_quote import go_quoted

CLOSEST: Final = "prefer-closest-numa-nodes"
MOST_NODES: Final = "max-allowable-numa-nodes"

DEFAULT_MOST_NODES: Final = 8
"""defaultMaxAllowableNUMANodes: hints are all subsets of the nodes, so more of them take long."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST: Final = 1 << 63
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
"""The values of Go's strconv.ParseBool."""


@dataclass(frozen=True, slots=True)
class Options:
    """Parsed topologyManagerPolicyOptions."""

    closest: bool = False
    """Of equally many nodes prefer those that are close to each other; single-numa-node does not ask."""
    most_nodes: int = DEFAULT_MOST_NODES
    """The most NUMA nodes that a machine may have."""


DEFAULTS: Final = Options()


class OptionError(ValueError):
    """An option is invalid; the message is the kubelet's."""


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse options without faults; raises OptionError."""
    if why := next(option_faults(given), ""):
        raise OptionError(why)
    return Options(given.get(CLOSEST) in _TRUE, int(given.get(MOST_NODES, DEFAULT_MOST_NODES)))


def option_faults(given: Mapping[str, str]) -> Iterator[str]:
    """List what is wrong; the kubelet names one of these at random."""
    for name, value in given.items():
        if why := _fault(name, value):
            yield why


def advice(given: Mapping[str, str]) -> str:
    """Say what to do about the first fault, where the kubelet's words do not; empty if there is no more to say."""
    name = next((name for name, value in given.items() if _fault(name, value)), "")
    if not name:
        return ""
    if name == CLOSEST:
        return "the value must be true or false"
    if name == MOST_NODES:
        return f"the value must be a number, {DEFAULT_MOST_NODES} or more"
    return f"the options are {CLOSEST} and {MOST_NODES}"


def _fault(name: str, value: str) -> str:
    if name == CLOSEST:
        if value not in _TRUE | _FALSE:
            return f"bad value for option {go_quoted(name)}: {_not_parsed('ParseBool', value, 'invalid syntax')}"
        return ""
    if name != MOST_NODES:
        return f"unknown Topology Manager Policy option: {go_quoted(name)}"
    why = "" if _NUMBER.fullmatch(value) else "invalid syntax"
    if not why and not -_MOST <= int(value) < _MOST:
        why = "value out of range"
    if why:
        return f"unable to convert policy option to integer {go_quoted(name)}: {_not_parsed('Atoi', value, why)}"
    if int(value) < DEFAULT_MOST_NODES:
        return f"the minimum value of {go_quoted(name)} should not be less than {DEFAULT_MOST_NODES}"
    return ""


def _not_parsed(function: str, value: str, why: str) -> str:
    return f"strconv.{function}: parsing {go_quoted(value)}: {why}"
