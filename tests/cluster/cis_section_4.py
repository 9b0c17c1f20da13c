"""Section 4 of the CIS Kubernetes Benchmark (worker nodes), judged as kube-bench judges a node: by `stat`, `ps` and the file.

The rows are those of its benchmark cis-1.12. A flag counts before the file's key, as for the kubelet.
"""

import json
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

UNSET: Final = "(not set)"
SAFE_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{cipher}"
    for key in ("ECDSA", "RSA")
    for cipher in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305", "CHACHA20_POLY1305_SHA256")
}


@dataclass(frozen=True, slots=True)
class Row:
    """One check of an argument or a key of the configuration."""

    number: str
    flag: str
    key: str
    passes: Callable[[Any], bool]
    manual: bool = False
    """kube-bench warns and does not fail."""


def _unset_or(passes: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value == UNSET or passes(value)


ROWS: Final = (
    Row("4.2.1", "--anonymous-auth", "authentication.anonymous.enabled", lambda value: value in {False, "false"}),
    Row("4.2.2", "--authorization-mode", "authorization.mode", lambda value: value not in {UNSET, "AlwaysAllow"}),
    Row("4.2.3", "--client-ca-file", "authentication.x509.clientCAFile", lambda value: value not in {UNSET, ""}),
    Row("4.2.4", "--read-only-port", "readOnlyPort", _unset_or(lambda value: int(value) == 0)),
    Row(
        "4.2.5",
        "--streaming-connection-idle-timeout",
        "streamingConnectionIdleTimeout",
        _unset_or(lambda value: value not in {0, "0", "0s"}),
    ),
    Row("4.2.6", "--make-iptables-util-chains", "makeIPTablesUtilChains", _unset_or(lambda value: value is True)),
    Row("4.2.7", "--hostname-override", "", lambda value: value == UNSET, manual=True),
    Row("4.2.8", "--event-qps", "eventRecordQPS", _unset_or(lambda value: int(value) >= 0)),
    Row("4.2.9", "--tls-cert-file", "tlsCertFile", lambda value: value != UNSET, manual=True),
    Row("4.2.10", "--rotate-certificates", "rotateCertificates", _unset_or(lambda value: value is True)),
    Row(
        "4.2.11",
        "--feature-gates",
        "featureGates.RotateKubeletServerCertificate",
        _unset_or(lambda value: "RotateKubeletServerCertificate=false" not in str(value) and value is not False),
    ),
    Row("4.2.12", "--tls-cipher-suites", "tlsCipherSuites", lambda value: set(value) <= SAFE_SUITES, manual=True),
    Row("4.2.13", "--pod-max-pids", "podPidsLimit", lambda value: value != UNSET, manual=True),
    Row("4.2.14", "--seccomp-default", "seccompDefault", lambda value: value is True, manual=True),
)


def failed_files(private: Sequence[Path], public: Sequence[Path] = ()) -> Iterator[str]:
    """Check 4.1: files of mode 600, those that may be read by all of 644, all of them root's; yields what fails."""
    for path, allowed in (*((one, 0o600) for one in private), *((one, 0o644) for one in public)):
        facts = path.stat()
        if stat.S_IMODE(facts.st_mode) & ~allowed or (facts.st_uid, facts.st_gid) != (0, 0):
            yield f"4.1 {path} is {stat.S_IMODE(facts.st_mode):o} {facts.st_uid}:{facts.st_gid}"


def failed_arguments(argv: Sequence[str], configuration: Path) -> Iterator[str]:
    """Check 4.2 of a process; yields what fails, manual checks aside."""
    content = json.loads(configuration.read_text())
    for row in ROWS:
        value = _flag(argv, row.flag, _key(content, row.key))
        if not row.manual and not row.passes(value):
            yield f"{row.number} {row.flag} is {value!r}"


def _flag(argv: Sequence[str], flag: str, default: Any) -> Any:
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name == flag:
            return value if equals else argv[index + 1]
    return default


def _key(content: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            return UNSET
        content = content[name]
    return content
