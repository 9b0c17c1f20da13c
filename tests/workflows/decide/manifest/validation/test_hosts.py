"""Are a pod's host name and DNS settings refused exactly when the API refuses them, with the same message?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import LABEL_RULE, SUBDOMAIN_RULE, pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.validation.hosts import hostname_overrides
from workflows.decide.manifest.validation.pod import validate_pod

NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
UNDERSCORED_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
)
CONFIG = "spec.dnsConfig"
OVERRIDE = "spec.hostnameOverride"


def judged(**spec: Any) -> list[str]:
    """Validate a pod with this spec."""
    return list(validate_pod(default_pod(pod(**spec))))


def dns(**config: Any) -> dict[str, Any]:
    """Build a dnsConfig."""
    return {"dnsConfig": config}


VALID = [
    {"subdomain": "sub", "hostname": "host", "setHostnameAsFQDN": True},
    {"hostnameOverride": "over.ride"},
    {"hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a.b", "c"]}, {"ip": "fd00::1"}]},
    dns(
        nameservers=["192.0.2.1", "fd00::1"], searches=[".", "_tcp.example.com.", "a_b.c"], options=[{"name": "debug"}]
    ),
    {"dnsPolicy": "None"} | dns(nameservers=["192.0.2.1"]),
    {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True} | dns(),
]


@pytest.mark.parametrize("spec", VALID, ids=lambda spec: str(spec)[:60])
def test_valid(spec: dict[str, Any]) -> None:
    """What the API accepts is accepted."""
    assert judged(**spec) == []


ROWS = [
    pytest.param(
        {"dnsPolicy": "None"},
        [f"{CONFIG}: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        id="none-without-config",
    ),
    pytest.param(
        {"dnsPolicy": "None"} | dns(searches=["A"]),
        [(f"{CONFIG}.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None")],
        id="none-without-nameservers",
    ),
    pytest.param(
        dns(nameservers=["1.1.1.1"] * 4),
        [f"{CONFIG}.nameservers: Invalid value: […]: must not have more than 3 nameservers"],
        id="four-nameservers",
    ),
    pytest.param(
        dns(nameservers=["x", "01.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0"][:3]),
        [
            f'{CONFIG}.nameservers[0]: Invalid value: "x": {NO_ADDRESS}',
            f'{CONFIG}.nameservers[1]: Invalid value: "01.2.3.4": must not have leading 0s',
            f'{CONFIG}.nameservers[2]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address',
        ],
        id="no-addresses",
    ),
    pytest.param(
        dns(searches=[f"a{number}" for number in range(33)]),
        [f"{CONFIG}.searches: Invalid value: […]: must not have more than 32 search paths"],
        id="33-searches",
    ),
    pytest.param(
        dns(searches=["a" * 63 + "." + "b" * 63 + "." + "c" * 63] * 11),
        [
            (
                f"{CONFIG}.searches: Invalid value: […]: must not have more than 2048 characters (including spaces) in"
                " the search list"
            )
        ],
        id="long-searches",
    ),
    pytest.param(
        dns(searches=["A!."], options=[{"value": "1"}]),
        [
            f'{CONFIG}.searches[0]: Invalid value: "A!": {UNDERSCORED_RULE}',
            f"{CONFIG}.options[0]: Required value: must not be empty",
        ],
        id="a-bad-domain-and-an-option-without-name",
    ),
    pytest.param(
        {"hostAliases": [{"ip": "999", "hostnames": ["A"]}, {}]},
        [
            f'spec.hostAliases[0].ip: Invalid value: "999": {NO_ADDRESS}',
            f'spec.hostAliases[0].hostnames[0]: Invalid value: "A": {SUBDOMAIN_RULE}',
            f'spec.hostAliases[1].ip: Invalid value: "": {NO_ADDRESS}',
        ],
        id="aliases",
    ),
    pytest.param({"subdomain": "A"}, [f'spec.subdomain: Invalid value: "A": {LABEL_RULE}'], id="subdomain"),
    pytest.param(
        {"hostnameOverride": "over", "setHostnameAsFQDN": True, "hostNetwork": True},
        [
            f"{OVERRIDE}: Forbidden: may not be specified when setHostnameAsFQDN is true",
            f"{OVERRIDE}: Forbidden: may not be specified when hostNetwork is true",
        ],
        id="an-override-beside-what-it-overrides",
    ),
    pytest.param(
        {"hostnameOverride": "a" * 65}, [f"{OVERRIDE}: Too long: may not be more than 64 bytes"], id="a-long-override"
    ),
    pytest.param(
        {"hostnameOverride": ""}, [f'{OVERRIDE}: Invalid value: "": {SUBDOMAIN_RULE}'], id="an-override-that-is-empty"
    ),
]


@pytest.mark.parametrize(("spec", "faults"), ROWS)
def test_refused(spec: dict[str, Any], faults: list[str]) -> None:
    """The API's message, with the field's path."""
    assert judged(**spec) == faults


def test_what_needs_the_gate() -> None:
    """Only the override does."""
    assert list(hostname_overrides({"hostnameOverride": "a"})) == [OVERRIDE]
    assert list(hostname_overrides({"hostname": "a"})) == []
