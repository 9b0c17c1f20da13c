"""The kubelet's labels and annotations of sandboxes and containers (pkg/kubelet/kuberuntime/labels.go).

Written by the worker, read by every process that lists the runtime's sandboxes and containers.
"""

from typing import Final

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
CONTAINER_HASH: Final = "io.kubernetes.container.hash"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER: Final = "io.kubernetes.container.preStopHandler"
CONTAINER_PORTS: Final = "io.kubernetes.container.ports"
POD_GRACE: Final = "io.kubernetes.pod.terminationGracePeriod"
