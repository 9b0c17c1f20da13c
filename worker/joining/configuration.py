"""Chooses the KubeletConfiguration of a node that joins, and reads it as its services will, before anything is changed."""

import asyncio
import copy
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from activities.clients.api_server.api_server import ApiAway, ApiRefused, ApiServer
from activities.clients.api_server.kubeconfig import Kubeconfig
from worker.daemon.config import NodeConfig, load_node_config
from worker.documents.yaml_document import Document, DocumentRefused, parse_document, read_document
from worker.joining import planned
from worker.joining.installing import read
from worker.joining.places import Places
from worker.joining.planned import NodeFlags
from worker.joining.record import Record
from worker.joining.refusal import JoinRefused
from worker.joining.request import JoinRequest
from worker.settings.flags import Flags
from worker.settings.kubelet.configuration import ConfigurationRefused, resolve_paths

KUBELET_CONFIG: Final = "/api/v1/namespaces/kube-system/configmaps/kubelet-config"
_KEY: Final = "kubelet"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A KubeletConfiguration: its text, its content, and where it is from."""

    text: bytes
    document: Document
    origin: str

    @property
    def content(self) -> dict[str, Any]:
        """Its keys."""
        return self.document.content


@dataclass(frozen=True, slots=True)
class ConfigurationChoice:
    """Which configuration a request leads to on this machine."""

    request: JoinRequest
    places: Places
    say: Say

    def choose(self, access: Kubeconfig, record: Record) -> Configuration:
        """Choose the KubeletConfiguration: the given one, what is there, the cluster's own, or a minimal one; raises JoinRefused, ConfigurationRefused."""
        place = self.places.kubelet_configuration
        if self.request.config is not None:
            return _given(self.request.config)
        if (there := read(place)) is not None:
            mine = "an earlier join wrote" if str(place) in record.files else "was there before"
            return Configuration(there, _document(there, str(place)), f"{place}, which {mine}")
        try:
            text = asyncio.run(_published(access))
            origin = "the ConfigMap kube-system/kubelet-config"
            return Configuration(text, _document(text, origin), origin)
        except (ApiRefused, ApiAway) as error:
            status = error.status if isinstance(error, ApiRefused) else None
            if status not in (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
                raise JoinRefused(
                    f"the cluster's kubelet-config cannot be read: {error}; run it again, or give --config"
                ) from error
            self.say(
                f"the cluster publishes no kubelet-config for this token ({error}): a minimal configuration is used, without "
                "clusterDNS; pods get the node's own resolver unless --config sets it"
            )
        return self.minimal("a minimal configuration")

    def minimal(self, origin: str) -> Configuration:
        """Return a minimal configuration, called so."""
        text = planned.minimal_configuration(self.places.authority)
        return Configuration(text, _document(text, origin), origin)

    def checked(self, configuration: Configuration, flags: NodeFlags) -> NodeConfig:
        """Read the configuration as the services will; raises ConfigurationRefused with the real source's name."""
        with tempfile.TemporaryDirectory(prefix="tempolet-join-") as folder:
            file = Path(folder) / "kubelet.yaml"
            file.write_bytes(configuration.text)
            keys = {"containerRuntimeEndpoint": flags.endpoint, "resolvConf": flags.resolv_conf}
            try:
                found = load_node_config(
                    Flags(
                        config=file,
                        tempolet_config=self.request.tempolet_config,
                        root_dir=self.places.root_dir,
                        hostname_override=self.request.hostname_override or None,
                        node_ip=self.request.node_ip or None,
                        kubeconfig=self.places.kubeconfig,
                        bootstrap_kubeconfig=self.places.bootstrap_kubeconfig,
                        keys={key: value for key, value in keys.items() if value},
                    )
                )
            except ConfigurationRefused as error:
                said = str(error).replace(str(file), configuration.origin)
                raise ConfigurationRefused(f"nothing was changed: {said}") from error
        self.say(f"configuration: {configuration.origin}")
        for warning in found.warnings:
            self.say(f"warning: {warning.replace(str(file), configuration.origin)}")
        return found


def _given(path: Path) -> Configuration:
    """Read --config; paths in it that are relative to its folder are made absolute, for the file moves."""
    try:
        document = read_document(path)
    except DocumentRefused as error:
        raise ConfigurationRefused(f"--config {error}") from error
    resolved = copy.deepcopy(document.content)
    resolve_paths(resolved, path.absolute().parent)
    if resolved != document.content:
        return Configuration(json.dumps(resolved, indent=1).encode() + b"\n", Document(resolved), f"--config {path}")
    return Configuration(path.read_bytes(), document, f"--config {path}")


def _document(text: bytes, origin: str) -> Document:
    try:
        return parse_document(text, origin)
    except DocumentRefused as error:
        raise ConfigurationRefused(f"nothing was changed: {error}") from error


async def _published(access: Kubeconfig) -> bytes:
    """Read the KubeletConfiguration that kubeadm publishes; raises ApiAway, ApiRefused."""
    async with ApiServer(access, user_agent="tempolet-join") as api:
        found = (await api.get(KUBELET_CONFIG)).get("data") or {}
    text = found.get(_KEY) if isinstance(found, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise ApiRefused(HTTPStatus.NOT_FOUND, "NotFound", f"{KUBELET_CONFIG} has no key {_KEY}")
    return text.encode()
