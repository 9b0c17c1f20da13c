"""projected: the files of several ConfigMaps, Secrets and of the pod's own data in one volume (pkg/volume/projected)."""

from typing import Final

from activities.volumes.types.written import WrittenFiles

TYPE: Final = WrittenFiles("projected", "kubernetes.io/projected", in_memory=True)
