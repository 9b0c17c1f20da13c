"""The events of a volume that is expanded or published again: of the pod, and the same of its claim if one is named.

Sources: operationexecutor/node_expander.go, operation_generator.go.
"""

from collections.abc import Iterator

from proto.volume_events import VolumeEvent
from worker.events.event import NORMAL, WARNING, ObjectReference, Occurrence


def volume_occurrences(happened: VolumeEvent) -> Iterator[Occurrence]:
    """Yield the events of an occurrence."""
    pod, kind = happened.pod, WARNING if happened.is_warning else NORMAL
    yield Occurrence(ObjectReference("Pod", pod.name, pod.uid, pod.namespace), kind, happened.reason, happened.message)
    if happened.claim is not None:
        namespace, name, uid = happened.claim
        about = ObjectReference("PersistentVolumeClaim", name, uid, namespace)
        yield Occurrence(about, kind, happened.reason, happened.message)
