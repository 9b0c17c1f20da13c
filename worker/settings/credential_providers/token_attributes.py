"""`tokenAttributes` of a CredentialProviderConfig: which service account token a credential provider gets.

Read by `credential_providers`; the rules and their texts are those of pkg/credentialprovider/plugin/config.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from activities.images.credentials.account_tokens import TokenAttributes
from workflows.decide.manifest.fields.names import qualified_name

PROTOCOL: Final = "credentialprovider.kubelet.k8s.io/v1"
"""The only version of a request that holds a token."""

_CACHE_TYPES: Final = ("ServiceAccount", "Token")
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "list", "of": _TEXT}
_REQUIRED: Final = "requiredServiceAccountAnnotationKeys"
_OPTIONAL: Final = "optionalServiceAccountAnnotationKeys"
TOKEN_ATTRIBUTES: Final = {
    "serviceAccountTokenAudience": _TEXT,
    "cacheType": _TEXT,
    "requireServiceAccount": {"type": "bool"},
    _REQUIRED: _TEXTS,
    _OPTIONAL: _TEXTS,
}


def token_attributes(one: Mapping[str, Any]) -> TokenAttributes:
    """Read valid attributes."""
    return TokenAttributes(
        audience=one["serviceAccountTokenAudience"],
        requires_account=one["requireServiceAccount"],
        required_annotations=tuple(one.get(_REQUIRED, ())),
        optional_annotations=tuple(one.get(_OPTIONAL, ())),
        cached_per_token=one["cacheType"] == "Token",
    )


def token_attribute_faults(path: str, provider: Mapping[str, Any], *, gate: bool) -> Iterator[str]:
    """Check a provider's attributes; `path` is where they are."""
    one: Mapping[str, Any] = provider["tokenAttributes"] or {}
    if not gate:
        yield (
            f"{path}: Forbidden: tokenAttributes is not supported when "
            "KubeletServiceAccountTokenForCredentialProviders feature gate is disabled"
        )
    if not one.get("serviceAccountTokenAudience"):
        yield f"{path}.serviceAccountTokenAudience: Required value"
    if one.get("requireServiceAccount") is None:
        yield f"{path}.requireServiceAccount: Required value"
    if provider.get("apiVersion") != PROTOCOL:
        yield f"{path}: Forbidden: tokenAttributes is only supported for {PROTOCOL} API version"
    required, optional = one.get(_REQUIRED) or (), one.get(_OPTIONAL) or ()
    if one.get("requireServiceAccount") is False and required:
        yield (
            f"{path}.{_REQUIRED}: Forbidden: requireServiceAccount cannot be false when "
            "requiredServiceAccountAnnotationKeys is set"
        )
    yield from _key_faults(f"{path}.{_REQUIRED}", required)
    yield from _key_faults(f"{path}.{_OPTIONAL}", optional)
    if both := sorted({*required} & {*optional}):
        shown = ", ".join(f'"{key}"' for key in both)
        yield f"{path}: Invalid value: [{shown}]: annotation keys cannot be both required and optional"
    yield from _cache_type_faults(f"{path}.cacheType", one.get("cacheType") or "")


def _cache_type_faults(path: str, found: str) -> Iterator[str]:
    if not found:
        yield (
            f"{path}: Required value: cacheType is required to be set when tokenAttributes is specified. "
            f"Supported values are: {', '.join(_CACHE_TYPES)}"
        )
    elif found not in _CACHE_TYPES:
        supported = ", ".join(f'"{one}"' for one in _CACHE_TYPES)
        yield f'{path}: Unsupported value: "{found}": supported values: {supported}'


def _key_faults(path: str, keys: Sequence[str]) -> Iterator[str]:
    seen = set()
    for key in keys:
        yield from (f'{path}: Invalid value: "{key}": {fault}' for fault in qualified_name(key.lower()))
        if key in seen:
            yield f'{path}: Duplicate value: "{key}"'
        seen.add(key)
