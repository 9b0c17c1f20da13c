"""Rules about names, labels and keys; each check yields the API's messages, none if the value is valid.

Source: k8s.io/apimachinery pkg/api/validate/content and pkg/util/validation. Lengths count bytes, as there.
"""

import re
from collections.abc import Iterator
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED_LABEL: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED: Final = rf"{_UNDERSCORED_LABEL}(\.{_UNDERSCORED_LABEL})*"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY_NAME})?"
_ALPHANUMERIC_ENDS: Final = "and must start and end with an alphanumeric character"
_KEY_RULE: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"

_IS_LABEL: Final = re.compile(_LABEL, re.ASCII)
_IS_SUBDOMAIN: Final = re.compile(_SUBDOMAIN, re.ASCII)
_IS_UNDERSCORED: Final = re.compile(_UNDERSCORED, re.ASCII)
_IS_KEY_NAME: Final = re.compile(_KEY_NAME, re.ASCII)
_IS_VALUE: Final = re.compile(_VALUE, re.ASCII)
_CONFIG_MAP_KEY: Final = "[-._a-zA-Z0-9]+"
_IS_CONFIG_MAP_KEY: Final = re.compile(_CONFIG_MAP_KEY, re.ASCII)
_IS_PORT_NAME: Final = re.compile("[-a-z0-9]+", re.ASCII)


def dns_label(value: str) -> Iterator[str]:
    """Check one DNS label of RFC 1123: a container's name, a namespace, a hostname."""
    yield from _no_longer(value, 63, "characters")
    if _fits(_IS_LABEL, value, 63):
        return
    if _fits(_IS_SUBDOMAIN, value, 63):
        yield "must not contain dots"
    else:
        rule = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALPHANUMERIC_ENDS}"
        yield _with_examples(rule, _LABEL, "my-name", "123-abc")


def dns_subdomain(value: str, unit: str = "characters") -> Iterator[str]:
    """Check a DNS subdomain of RFC 1123: the name of a pod, node or priority class."""
    yield from _no_longer(value, 253, unit)
    if not _fits(_IS_SUBDOMAIN, value, 253):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        yield _with_examples(rule + _ALPHANUMERIC_ENDS, _SUBDOMAIN, "example.com")


def dns_subdomain_with_underscore(value: str) -> Iterator[str]:
    """Check a DNS search domain, whose labels may contain underscores."""
    yield from _no_longer(value, 253, "characters")
    if not _fits(_IS_UNDERSCORED, value, 253):
        rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
        yield _with_examples(rule + _ALPHANUMERIC_ENDS, _UNDERSCORED, "example.com")


def qualified_name(value: str) -> Iterator[str]:
    """Check the key of a label, annotation or resource: a name with an optional domain before a slash."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        described = _with_examples(_KEY_RULE, _KEY_NAME, "MyName", "my.name", "123-abc")
        yield f"a valid label key {described} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {one}" for one in dns_subdomain(prefix, "bytes"))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {one}" for one in _no_longer(name, 63))
    if not _fits(_IS_KEY_NAME, name, 63):
        yield f"name part {_with_examples(_KEY_RULE, _KEY_NAME, 'MyName', 'my.name', '123-abc')}"


def label_value(value: str) -> Iterator[str]:
    """Check the value of a label."""
    yield from _no_longer(value, 63)
    if not _fits(_IS_VALUE, value, 63):
        rule = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"
        yield _with_examples(rule, _VALUE, "MyValue", "my_value", "12345")


def port_name(value: str) -> Iterator[str]:
    """Check the name of a port."""
    yield from _no_longer(value, 15, "characters")
    if not _IS_PORT_NAME.fullmatch(value):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", value):
        yield "must contain at least one letter (a-z)"
    if "--" in value:
        yield "must not contain consecutive hyphens"
    if value.startswith("-") or value.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_number(value: int) -> Iterator[str]:
    """Check the number of a port."""
    if not 1 <= value <= 65535:
        yield "must be between 1 and 65535, inclusive"


def environment_name(value: str) -> Iterator[str]:
    """Check the name of an environment variable (the relaxed rule, GA in 1.34)."""
    if any(not " " <= sign <= "~" or sign == "=" for sign in value):
        yield "a valid environment variable name must consist only of printable ASCII characters other than '='"


def config_map_key(value: str) -> Iterator[str]:
    """Check a key of a ConfigMap or Secret, which may become a file's name."""
    yield from _no_longer(value, 253, "characters")
    if not _fits(_IS_CONFIG_MAP_KEY, value, 253):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        yield _with_examples(rule, _CONFIG_MAP_KEY, "key.name", "KEY_NAME", "key-name")
    if value in {".", ".."}:
        yield f"must not be '{value}'"
    elif value.startswith(".."):
        yield "must not start with '..'"


def _fits(shape: re.Pattern[str], value: str, most: int) -> bool:
    """Match, but spend no time on text that is too long; its length is reported already."""
    return shape.fullmatch(value[: 4 * most]) is not None


def _no_longer(value: str, most: int, unit: str = "bytes") -> Iterator[str]:
    """Check the length in bytes, whatever the unit in the API's message."""
    if _bytes(value) > most:
        yield f"must be no more than {most} {unit}"


def _bytes(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _with_examples(rule: str, shape: str, *examples: str) -> str:
    """Add examples and the expression, as every such message of the API does."""
    shown = " or ".join(f"'{one}', " for one in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{shape}')"
