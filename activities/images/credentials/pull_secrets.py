"""The logins in a pod's image pull secrets.

Read when an image is pulled, and when the right to one on the node is checked. A missing secret does not block the
pod, because the image may be public (pkg/kubelet/kubelet_pods.go getPullSecretsForPod). A static pod has no admission
that adds its service account's secrets, so they are added here if that object exists.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activities.images.credentials.docker_config import DockerConfig, NotADockerConfig, docker_config_json, dockercfg
from activities.images.credentials.keyring import Keyring, SecretSource
from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, ObjectSource
from proto.temporal.images import PullSecrets

FAILED_TO_RETRIEVE: Final = "FailedToRetrieveImagePullSecret"

_FORMS: Final[Mapping[str, tuple[str, Callable[[bytes], DockerConfig]]]] = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", docker_config_json),
    "kubernetes.io/dockercfg": (".dockercfg", dockercfg),
}
"""Type of a secret -> its key, and the parser; secrets of other types have no login."""


@dataclass(slots=True)
class PodLogins:
    """The logins in a pod's pull secrets."""

    keyring: Keyring = field(default_factory=Keyring)
    warnings: list[str] = field(default_factory=list)
    """For the operator; without values."""


async def pod_logins(objects: ObjectSource, namespace: str, asked: PullSecrets) -> PodLogins:
    """Read a pod's pull secrets; raises NotADockerConfig, which names the secret without a login."""
    found, missing, why = PodLogins(), [], []
    for name in asked.names or await _of_service_account(objects, namespace, asked.service_account):
        try:
            secret = await objects.get(ObjectKind.SECRETS, namespace, name)
        except (ObjectMissing, ObjectRefused) as error:
            missing.append(name)
            why += [str(error)] if isinstance(error, ObjectRefused) else []
            continue
        uid = str(secret.json.get("metadata", {}).get("uid", ""))
        config = await asyncio.to_thread(_config, secret.json, f"{namespace}/{name}")  # it may have 1 MiB
        await asyncio.to_thread(found.keyring.add, config, SecretSource(namespace, name, uid))
    if missing:
        words = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); attempting to pull the image may not succeed."
        found.warnings.append(f"{FAILED_TO_RETRIEVE}: {' '.join([words, *why])}")
    return found


async def _of_service_account(objects: ObjectSource, namespace: str, name: str) -> tuple[str, ...]:
    """List the pull secrets of a service account (plugin/pkg/admission/serviceaccount); none if it does not exist."""
    if not name:
        return ()
    try:
        account = await objects.get(ObjectKind.SERVICE_ACCOUNTS, namespace, name)
    except (ObjectMissing, ObjectRefused):
        return ()
    return tuple(str(one["name"]) for one in account.json.get("imagePullSecrets") or () if one.get("name"))


def _config(secret: Mapping[str, Any], name: str) -> DockerConfig:
    key, read = _FORMS.get(str(secret.get("type", "")), ("", docker_config_json))
    if not (encoded := (secret.get("data") or {}).get(key)):
        return {}
    try:
        return read(base64.b64decode(encoded))
    except binascii.Error:
        raise NotADockerConfig(f"secret {name}: {key} is not base64") from None
    except NotADockerConfig as error:
        raise NotADockerConfig(f"secret {name}: {key}: {error}") from None
