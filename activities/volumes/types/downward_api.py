"""downwardAPI: what a pod is told about itself, as files (pkg/volume/downwardapi)."""

from typing import Final

from activities.volumes.types.written import WrittenFiles

TYPE: Final = WrittenFiles("downwardAPI", "kubernetes.io/downward-api", in_memory=True)
