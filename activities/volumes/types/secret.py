"""secret: a Secret's keys as files, which never reach a disk (pkg/volume/secret)."""

from typing import Final

from activities.volumes.types.written import WrittenFiles

TYPE: Final = WrittenFiles("secret", "kubernetes.io/secret", in_memory=True)
