"""Stores the objects that a test's pods refer to, in a dict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused, StoredObject


@dataclass(slots=True)
class ObjectsInMemory:
    """An ObjectSource; objects are found by namespace and name, their version counts changes."""

    kept: dict[tuple[ObjectKind, str, str], StoredObject] = field(default_factory=dict)
    refused: dict[tuple[ObjectKind, str, str], str] = field(default_factory=dict)
    reads: list[tuple[ObjectKind, str, str]] = field(default_factory=list)

    def put(self, kind: ObjectKind, name: str, content: Mapping[str, Any], namespace: str = "default") -> None:
        """Create or change an object; `content` is in the API's form."""
        key = (kind, namespace if kind.namespaced else "", name)
        before = self.kept.get(key)
        version = str(int(before.version) + 1 if before else 1)
        metadata = {"name": name} | ({"namespace": namespace} if kind.namespaced else {})
        self.kept[key] = StoredObject(version, {"metadata": metadata, **content})

    async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
        """Return it."""
        key = (kind, namespace if kind.namespaced else "", name)
        self.reads.append(key)
        if why := self.refused.get(key):
            raise ObjectRefused(why)
        if key not in self.kept:
            raise ObjectMissing(kind, name)
        return self.kept[key]
