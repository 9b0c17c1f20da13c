"""CredentialProviderConfig: the programs that provide logins for registries, from one file or a folder of files.

Given by the kubelet's flags `--image-credential-provider-config` and `--image-credential-provider-bin-dir`, and read as
in pkg/credentialprovider/plugin/config.go. An invalid configuration is refused at start, with all its errors.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from activities.images.credentials.account_tokens import TokenAttributes
from activities.images.credentials.locations import InvalidLocation, parse_location
from proto.kubernetes.go_duration import parse_duration
from worker.documents.yaml_document import DocumentRefused, read_document
from worker.settings.credential_providers.token_attributes import (
    TOKEN_ATTRIBUTES,
    token_attribute_faults,
    token_attributes,
)
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.settings.kubelet.schema import WrongValue, check_fields

KIND: Final = "CredentialProviderConfig"
VERSIONS: Final = tuple(f"kubelet.config.k8s.io/{one}" for one in ("v1", "v1alpha1", "v1beta1"))
PROTOCOLS: Final = tuple(f"credentialprovider.kubelet.k8s.io/{one}" for one in ("v1", "v1alpha1", "v1beta1"))

_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "list", "of": _TEXT}
_FIELDS: Final[Mapping[str, Any]] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "providers": {
        "type": "list",
        "of": {
            "type": "object",
            "fields": {
                "name": _TEXT,
                "matchImages": _TEXTS,
                "defaultCacheDuration": {"type": "duration"},
                "apiVersion": _TEXT,
                "args": _TEXTS,
                "env": {"type": "list", "of": {"type": "object", "fields": {"name": _TEXT, "value": _TEXT}}},
                "tokenAttributes": {"type": "object", "fields": TOKEN_ATTRIBUTES},
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider in the configuration."""

    name: str
    path: Path
    api_version: str
    match_images: tuple[str, ...]
    default_cache_duration: timedelta
    attributes: TokenAttributes | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CredentialProviders:
    """All providers, and a hash of the files, by which monitoring detects changes."""

    providers: tuple[ProviderSettings, ...] = ()
    hash: str = ""


def load_credential_providers(
    config: Path | None, bin_dir: Path | None, *, account_tokens: bool = True
) -> CredentialProviders:
    """Read and validate the configuration; raises ConfigurationRefused naming file and field.

    Empty without the flags. `account_tokens`: the feature gate KubeletServiceAccountTokenForCredentialProviders.
    """
    if config is None and bin_dir is None:
        return CredentialProviders()
    if config is None or bin_dir is None:
        raise ConfigurationRefused(
            "--image-credential-provider-config and --image-credential-provider-bin-dir belong together: give both"
        )
    if not bin_dir.is_dir():
        raise ConfigurationRefused(f"--image-credential-provider-bin-dir {bin_dir}: no such folder")
    hashed, found = sha256(), list[Mapping[str, Any]]()
    for file in _files(config):
        found += _read(file)
        data = file.read_bytes()
        hashed.update(len(data).to_bytes(8) + data)
    if faults := [*_faults(found, account_tokens=account_tokens)]:
        raise ConfigurationRefused(f"invalid {KIND} {config}: " + "\n  ".join(faults))
    return CredentialProviders(tuple(_settings(one, bin_dir) for one in found), f"sha256:{hashed.hexdigest()}")


def _files(config: Path) -> Sequence[Path]:
    try:
        if not config.is_dir():
            return [config]
        files = sorted(one for one in config.iterdir() if one.suffix in _SUFFIXES and not one.is_dir())
    except OSError as error:
        raise ConfigurationRefused(f"--image-credential-provider-config {config}: {error.strerror}") from error
    if not files:
        raise ConfigurationRefused(f"--image-credential-provider-config {config}: no *.json, *.yaml or *.yml in it")
    return files


def _read(file: Path) -> Sequence[Mapping[str, Any]]:
    try:
        document = read_document(file)
        checked = check_fields(document.content, _FIELDS)
    except DocumentRefused as error:
        raise ConfigurationRefused(str(error)) from error
    except WrongValue as error:
        raise ConfigurationRefused(f"{file}: {error}") from error
    content = checked.content
    if content.get("kind") != KIND or content.get("apiVersion") not in VERSIONS:
        raise ConfigurationRefused(f"{file}: must have apiVersion {VERSIONS[0]} and kind {KIND}")
    for wrong in (*checked.unknown, *document.duplicates):
        raise ConfigurationRefused(f"{file}: {wrong}: no such field, or set twice")
    providers: Sequence[Mapping[str, Any]] = content.get("providers", [])
    return providers


def _faults(providers: Sequence[Mapping[str, Any]], *, account_tokens: bool) -> Iterator[str]:
    if not providers:
        yield "providers: at least one is required"
    seen = set()
    for index, one in enumerate(providers):
        path, name = f"providers[{index}]", one.get("name", "")
        yield from (f"{path}.name: {name!r}: {fault}" for fault in _name_faults(name))
        if name in seen:
            yield f"{path}.name: {name!r}: there is another of this name"
        seen.add(name)
        if one.get("apiVersion") not in PROTOCOLS:
            yield f"{path}.apiVersion: {one.get('apiVersion')!r}, but it is {', '.join(PROTOCOLS)}"
        if not one.get("matchImages"):
            yield f"{path}.matchImages: at least one is required"
        yield from _location_faults(one.get("matchImages", ()), f"{path}.matchImages")
        if one.get("defaultCacheDuration") is None:
            yield f"{path}.defaultCacheDuration: required"
        elif parse_duration(one["defaultCacheDuration"]) < timedelta():
            yield f"{path}.defaultCacheDuration: {one['defaultCacheDuration']}, but it must not be negative"
        if "tokenAttributes" in one:
            yield from token_attribute_faults(f"{path}.tokenAttributes", one, gate=account_tokens)


def _location_faults(locations: Sequence[str], path: str) -> Iterator[str]:
    for index, one in enumerate(locations):
        try:
            parse_location(one)
        except InvalidLocation as error:
            yield f"{path}[{index}]: {error}"


def _name_faults(name: str) -> Iterator[str]:
    if not name:
        yield "required"
    for mark, word in (("/", "'/'"), (" ", "spaces"), ("\0", "NUL")):
        if mark in name:
            yield f"a provider's name cannot contain {word}"
    if name in {".", ".."}:
        yield f"a provider's name cannot be '{name}'"


def _settings(one: Mapping[str, Any], bin_dir: Path) -> ProviderSettings:
    path = bin_dir.absolute() / one["name"]
    if shutil.which(path) is None:
        state = "is not executable" if os.path.lexists(path) else "does not exist"
        raise ConfigurationRefused(f"--image-credential-provider-bin-dir: the program {path} {state}")
    return ProviderSettings(
        name=one["name"],
        path=path,
        api_version=one["apiVersion"],
        match_images=tuple(one["matchImages"]),
        default_cache_duration=parse_duration(one["defaultCacheDuration"]),
        attributes=token_attributes(one["tokenAttributes"]) if "tokenAttributes" in one else None,
        args=tuple(one.get("args", ())),
        env={pair.get("name", ""): pair.get("value", "") for pair in one.get("env", ())},
    )
