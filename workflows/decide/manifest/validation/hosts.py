"""Rules about a pod's hostname and name resolution.

Source: pkg/apis/core/validation/validation.go, validatePodHostName, validatePodDNSConfig, ValidateHostAliases and
ValidatePodSpec. Addresses are validated as with StrictIPCIDRValidation, which is on in 1.36.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from workflows.decide.manifest.fields import names
from workflows.decide.manifest.fields.field_errors import forbidden, invalid, required, too_long

_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_LONGEST_OVERRIDE: Final = 64
_LEADING_ZEROS: Final = re.compile(r"\b0+(?=\d)")
_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_hosts(spec: Mapping[str, Any]) -> Iterator[str]:
    """Validate dnsConfig, hostnameOverride, hostname, subdomain and hostAliases."""
    yield from _dns_config(spec, "spec.dnsConfig")
    if "hostnameOverride" in spec:
        yield from _override(spec, "spec.hostnameOverride")
    for field in ("hostname", "subdomain"):
        if name := spec.get(field):
            yield from (invalid(f"spec.{field}", name, one) for one in names.dns_label(name))
    for index, alias in enumerate(spec.get("hostAliases", ())):
        path = f"spec.hostAliases[{index}]"
        yield from address(alias.get("ip", ""), f"{path}.ip")
        for number, name in enumerate(alias.get("hostnames", ())):
            yield from (invalid(f"{path}.hostnames[{number}]", name, one) for one in names.dns_subdomain(name))


def hostname_overrides(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of the field that needs the feature gate HostnameOverride, if it is set."""
    if "hostnameOverride" in spec:
        yield "spec.hostnameOverride"


def address(text: str, path: str) -> Iterator[str]:
    """Validate an IP address (IsValidIPForLegacyField)."""
    if (found := _parsed(text)) is None:
        zeros = _LEADING_ZEROS.search(text) and _parsed(_LEADING_ZEROS.sub("", text))
        yield invalid(path, text, "must not have leading 0s" if zeros else _NO_ADDRESS)
    elif isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
        yield invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _override(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    name = spec["hostnameOverride"]
    if spec.get("setHostnameAsFQDN"):
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden(path, "may not be specified when hostNetwork is true")
    if len(name.encode()) > _LONGEST_OVERRIDE:
        yield too_long(path, _LONGEST_OVERRIDE)
    yield from (invalid(path, name, one) for one in names.dns_subdomain(name))


def _dns_config(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            said = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", said)
            return
    if config is not None:
        yield from _nameservers(config.get("nameservers", []), f"{path}.nameservers")
        yield from _searches(config.get("searches", []), f"{path}.searches")
        for index, option in enumerate(config.get("options", ())):
            if not option.get("name"):
                yield required(f"{path}.options[{index}]", "must not be empty")


def _nameservers(servers: Sequence[str], path: str) -> Iterator[str]:
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid(path, servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from address(server, f"{path}[{index}]")


def _searches(searches: Sequence[str], path: str) -> Iterator[str]:
    if len(searches) > _MAX_SEARCHES:
        yield invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches).encode()) > _MAX_SEARCH_CHARACTERS:
        said = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        yield invalid(path, searches, said)
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            faults = names.dns_subdomain_with_underscore(domain)
            yield from (invalid(f"{path}[{index}]", domain, one) for one in faults)
