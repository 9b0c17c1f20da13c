"""Image names: their grammar, and the default tag; pure.

The grammar is that of github.com/distribution/reference, as in the kubelet's applyDefaultImageTag. The name itself is
passed on unchanged, so the runtime decides which registry a short name means.
"""

import json
import re
from typing import Final

DEFAULT_TAG: Final = "latest"

_PATH_MAX: Final = 255
_SHOWN: Final = 200
_DOMAIN_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[a-fA-F0-9:]+\])"
_PATH_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"(?:{_HOST}(?::[0-9]+)?/)?(?P<path>{_PATH_PART}(?:/{_PATH_PART})*)"
    rf"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}", re.ASCII)
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_DOCKER_HUB: Final = "docker.io"
_LEGACY_HUB: Final = "index.docker.io"


class InvalidImageName(ValueError):
    """The text is no image name; the message says why."""


def with_default_tag(image: str) -> str:
    """Return the name to ask the runtime for: `:latest` is added if there is neither tag nor digest."""
    match = _parsed(image)
    return image if match["tag"] or match["digest"] else f"{image}:{DEFAULT_TAG}"


def repository(image: str) -> str:
    """Return the registry and path of a name: `busybox:1` is in `docker.io/library/busybox`."""
    match = _parsed(image)
    return match.string[: match.end("path")]


def without_tag(image: str) -> str:
    """Return a name as it is written, without tag and digest."""
    match = _parsed(image)
    return image[: len(image) - len(match.string) + match.end("path")]


def _parsed(image: str) -> re.Match[str]:
    """Split a name, with its registry filled in; raises InvalidImageName."""
    if _IDENTIFIER.fullmatch(image):
        why = f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
        raise _invalid(image, why)
    domain, rest = _split_domain(image)
    path = rest.partition("@")[0].partition(":")[0]
    if path != path.lower():
        why = f"invalid reference format: repository name ({path[:_SHOWN]}) must be lowercase"
        raise _invalid(image, why)
    match = _REFERENCE.fullmatch(f"{domain}/{rest}")
    if match is None or len(match["path"]) > _PATH_MAX:
        raise _invalid(image, "invalid reference format")
    if digest := match["digest"]:
        algorithm, _, digits = digest.partition(":")
        if _DIGEST_LENGTHS.get(algorithm) != len(digits) or digits != digits.lower():
            raise _invalid(image, f"unknown or malformed digest {digest[:_SHOWN]!r}")
    return match


def _invalid(image: str, why: str) -> InvalidImageName:
    return InvalidImageName(f"couldn't parse image name {quoted_name(image)}: {why}")


def quoted_name(image: str) -> str:
    """Quote an invalid name like Go, shortened so that the reason after it is not cut off."""
    return json.dumps(image[:_SHOWN], ensure_ascii=False)


def _split_domain(image: str) -> tuple[str, str]:
    """Separate the registry from the path: it has a dot, a port or capitals, or is localhost."""
    first, slash, rest = image.partition("/")
    if slash and (any(mark in first for mark in ".:") or first == "localhost" or first != first.lower()):
        if first in {_DOCKER_HUB, _LEGACY_HUB}:
            return _DOCKER_HUB, rest if "/" in rest else f"library/{rest}"
        return first, rest
    return _DOCKER_HUB, image if slash else f"library/{image}"
