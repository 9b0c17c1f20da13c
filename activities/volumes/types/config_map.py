"""configMap: a ConfigMap's keys as files (pkg/volume/configmap)."""

from typing import Final

from activities.volumes.types.written import WrittenFiles

TYPE: Final = WrittenFiles("configMap", "kubernetes.io/configmap", in_memory=False)
