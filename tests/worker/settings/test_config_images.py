"""Does a node obey its configuration of image access, and refuse what it cannot obey?"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.images.access.verification import Verification, VerificationPolicy
from activities.images.credentials.account_tokens import TokenAttributes
from worker.daemon.config import NodeConfig, load_node_config
from worker.host.image_access import image_logins
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
PROVIDERS = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
ECR = """\
- name: ecr
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:5000/team"]
  defaultCacheDuration: 12h
  args: [get]
  env: [{name: PROFILE, value: canary-7Q}]
"""
OFF = "featureGates: {KubeletEnsureSecretPulledImages: false}\n"


def load(tmp_path: Path, text: str, flags: Flags | None = None) -> NodeConfig:
    """Read a KubeletConfiguration."""
    file = tmp_path / "kubelet.yaml"
    file.write_text(HEAD + text)
    return load_node_config(replace(flags or Flags(), config=file))


@pytest.mark.parametrize(
    ("text", "verification"),
    [
        pytest.param("", Verification(VerificationPolicy.NEVER_PRELOADED), id="the-kubelet-s-default"),
        pytest.param(
            "imagePullCredentialsVerificationPolicy: AlwaysVerify", Verification(VerificationPolicy.ALWAYS), id="always"
        ),
        pytest.param(
            "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\n"
            "preloadedImagesVerificationAllowlist: [registry.io/team/*, busybox]",
            Verification(VerificationPolicy.NEVER_ALLOWLISTED, ("registry.io/team/*", "busybox")),
            id="an-allowlist",
        ),
        pytest.param(OFF, None, id="without-the-gate"),
    ],
)
def test_verification(tmp_path: Path, text: str, verification: Verification | None) -> None:
    """Each policy reaches the node."""
    config = load(tmp_path, text)
    assert config.pulls.verification == verification
    assert config.warnings == ()


LIST = "imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("imagePullCredentialsVerificationPolicy: Sometimes", "NeverVerify, NeverVerifyPreloadedImages"),
        ("preloadedImagesVerificationAllowlist: [busybox]", "only with imagePullCredentialsVerificationPolicy"),
        (f"{LIST}['busybox:1']", "neither tag nor digest"),
        (f"{LIST}[' busybox']", "leading and trailing spaces"),
        (f"{LIST}['bus*']", "not a valid wildcard pattern"),
        (f"{LIST}['*/x/*']", "not a valid wildcard pattern"),
        (f"{LIST}['/*']", "hostname is required"),
        (f"{LIST}['']", "too short"),
        (f"{LIST}[BUSYBOX]", "couldn't parse image name"),
        (f"{OFF}imagePullCredentialsVerificationPolicy: AlwaysVerify", "needs the feature gate"),
    ],
)
def test_a_verification_that_cannot_be(tmp_path: Path, text: str, words: str) -> None:
    """It is refused with the key's name."""
    with pytest.raises(ConfigurationRefused, match=words.replace("(", r"\(")):
        load(tmp_path, text)


@pytest.fixture
def flags(tmp_path: Path) -> Flags:
    """Return a folder with one program, and a configuration file yet to be written."""
    (tmp_path / "bin").mkdir()
    for name in ("ecr", "gcr"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return Flags(
        image_credential_provider_config=tmp_path / "providers.yaml",
        image_credential_provider_bin_dir=tmp_path / "bin",
    )


def test_credential_providers(tmp_path: Path, flags: Flags) -> None:
    """All of it, with the program's whole path; and what a variable holds is not shown."""
    (tmp_path / "providers.yaml").write_text(PROVIDERS + ECR)
    found = load(tmp_path, "", flags).credential_providers
    (one,) = found.providers
    assert (one.name, one.path, one.args) == ("ecr", tmp_path / "bin" / "ecr", ("get",))
    assert one.match_images == ("*.dkr.ecr.*.amazonaws.com", "registry.io:5000/team")
    assert one.default_cache_duration == timedelta(hours=12)
    assert one.env == {"PROFILE": "canary-7Q"}
    assert "canary-7Q" not in repr(one)
    assert found.hash.startswith("sha256:")


def test_a_folder_of_configurations(tmp_path: Path, flags: Flags) -> None:
    """Its JSON and YAML files by name; nothing else of it."""
    folder = tmp_path / "providers"
    folder.mkdir()
    (folder / "b.yml").write_text(PROVIDERS + ECR)
    (folder / "a.yaml").write_text(PROVIDERS + ECR.replace("ecr", "gcr", 1))
    (folder / "a.txt").write_text("not read")
    found = load(tmp_path, "", replace(flags, image_credential_provider_config=folder)).credential_providers
    assert [one.name for one in found.providers] == ["gcr", "ecr"]


ATTRIBUTES = (
    "tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Token, requireServiceAccount: true, "
    "requiredServiceAccountAnnotationKeys: [a/b], optionalServiceAccountAnnotationKeys: [c]}"
)


def test_service_account_tokens(tmp_path: Path, flags: Flags) -> None:
    """A provider's attributes reach it; without them it gets no token."""
    (tmp_path / "providers.yaml").write_text(changed("args: [get]", ATTRIBUTES))
    (one,) = load(tmp_path, "", flags).credential_providers.providers
    assert one.attributes == TokenAttributes("x", True, ("a/b",), ("c",), True)
    assert image_logins(load(tmp_path, "", flags)).providers[0].attributes == one.attributes
    (tmp_path / "providers.yaml").write_text(PROVIDERS + ECR)
    assert load(tmp_path, "", flags).credential_providers.providers[0].attributes is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "serviceAccountTokenAudience: Required value", id="no-audience"),
        pytest.param("cacheType: Token", "requireServiceAccount: Required value", id="no-requirement"),
        pytest.param(
            "requireServiceAccount: true",
            "cacheType: Required value: cacheType is required to be set when tokenAttributes is specified. "
            "Supported values are: ServiceAccount, Token",
            id="no-cache-type",
        ),
        pytest.param(
            "cacheType: Pod",
            'cacheType: Unsupported value: "Pod": supported values: "ServiceAccount", "Token"',
            id="type",
        ),
        pytest.param(
            "requireServiceAccount: false, requiredServiceAccountAnnotationKeys: [a]",
            "requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false when "
            "requiredServiceAccountAnnotationKeys is set",
            id="annotations-of-no-account",
        ),
        pytest.param(
            "requiredServiceAccountAnnotationKeys: [b, a], optionalServiceAccountAnnotationKeys: [a, c, b]",
            'tokenAttributes: Invalid value: ["a", "b"]: annotation keys cannot be both required and optional',
            id="required-and-optional",
        ),
        pytest.param(
            "optionalServiceAccountAnnotationKeys: [a, a]",
            'optionalServiceAccountAnnotationKeys: Duplicate value: "a"',
            id="twice",
        ),
        pytest.param(
            "requiredServiceAccountAnnotationKeys: ['@A']",
            'requiredServiceAccountAnnotationKeys: Invalid value: "@A": name part must consist of alphanumeric',
            id="no-key",
        ),
    ],
)
def test_service_account_tokens_that_cannot_be(tmp_path: Path, flags: Flags, text: str, words: str) -> None:
    """In the kubelet's words."""
    (tmp_path / "providers.yaml").write_text(changed("args: [get]", f"tokenAttributes: {{{text}}}"))
    with pytest.raises(ConfigurationRefused) as error:
        load(tmp_path, "", flags)
    assert words in str(error.value)


def test_service_account_tokens_need_their_gate_and_v1(tmp_path: Path, flags: Flags) -> None:
    """In the kubelet's words, too."""
    text = changed("args: [get]", ATTRIBUTES)
    (tmp_path / "providers.yaml").write_text(text)
    with pytest.raises(ConfigurationRefused, match="tokenAttributes: Forbidden: tokenAttributes is not supported when"):
        load(tmp_path, "featureGates: {KubeletServiceAccountTokenForCredentialProviders: false}\n", flags)
    (tmp_path / "providers.yaml").write_text(text.replace("k8s.io/v1\n  match", "k8s.io/v1beta1\n  match"))
    with pytest.raises(ConfigurationRefused, match="tokenAttributes is only supported for "):
        load(tmp_path, "", flags)


def changed(old: str, new: str) -> str:
    """Write the provider with a change."""
    assert old in ECR
    return PROVIDERS + ECR.replace(old, new)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(changed("name: ecr", "name: ../ecr"), r"cannot contain '/'", id="a-path-as-a-name"),
        pytest.param(changed("name: ecr", "name: .."), r"cannot be '\.\.'", id="a-folder-as-a-name"),
        pytest.param(changed("name: ecr", "name: e cr"), "cannot contain spaces", id="a-blank-in-a-name"),
        pytest.param(changed("name: ecr", 'name: "e\\0cr"'), "cannot contain NUL", id="nul-in-a-name"),
        pytest.param(changed("name: ecr", "name: ''"), "required", id="no-name"),
        pytest.param(changed("name: ecr", "name: absent"), "does not exist", id="no-such-program"),
        pytest.param(PROVIDERS + ECR + ECR, "another of this name", id="two-of-a-name"),
        pytest.param(changed("k8s.io/v1\n  match", "k8s.io/v9\n  match"), "apiVersion: 'credential", id="a-version"),
        pytest.param(changed('"*.dkr.ecr.*.amazonaws.com", ', '"a b", '), "is not a registry", id="no-location"),
        pytest.param(changed("defaultCacheDuration: 12h", "defaultCacheDuration: -1s"), "negative", id="negative"),
        pytest.param(changed("  defaultCacheDuration: 12h\n", ""), "defaultCacheDuration: required", id="no-cache"),
        pytest.param(changed("args: [get]", "more: 1"), r"providers\[0\]\.more: no such field", id="an-unknown-field"),
        pytest.param(PROVIDERS + "  []", "at least one is required", id="none"),
        pytest.param("apiVersion: v1\nkind: Pod", "and kind CredentialProviderConfig", id="something-else"),
    ],
)
def test_credential_providers_that_cannot_be(tmp_path: Path, flags: Flags, text: str, words: str) -> None:
    """They are refused when the process starts."""
    (tmp_path / "providers.yaml").write_text(text)
    with pytest.raises(ConfigurationRefused, match=words):
        load(tmp_path, "", flags)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"image_credential_provider_config": None}, "belong together"),
        ({"image_credential_provider_bin_dir": None}, "belong together"),
        ({"image_credential_provider_bin_dir": Path("/nowhere")}, "no such folder"),
        ({"image_credential_provider_config": Path("/nowhere")}, "/nowhere"),
    ],
)
def test_flags_that_cannot_be(tmp_path: Path, flags: Flags, given: dict[str, Any], words: str) -> None:
    """One without the other, and what is not there."""
    (tmp_path / "providers.yaml").write_text(PROVIDERS + ECR)
    with pytest.raises(ConfigurationRefused, match=words):
        load(tmp_path, "", replace(flags, **given))
