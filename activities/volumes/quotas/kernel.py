"""The kernel's project quotas: quotactl_fd(2), and the project id of a file (ioctl_fsgetxattr(2)).

The kubelet runs xfs_quota and lsattr, which make the same calls, on ext4 too. quotactl_fd needs kernel 5.14; pods in user
namespaces, which alone have quotas, need 6.3. Reading and setting a quota needs CAP_SYS_ADMIN. Every file is given as a descriptor
that may be read. Sources: linux/dqblk_xfs.h, linux/quota.h, linux/fs.h.
"""

import ctypes
import errno
import fcntl
import os
import struct
from typing import Final

from activities.files.disk_use import Count

_PROJECT: Final = 2
"""PRJQUOTA."""
_GET, _SET_LIMIT, _GET_STATE = (((ord("X") << 8) + one) << 8 | _PROJECT for one in (3, 4, 8))
"""Q_XGETQUOTA, Q_XSETQLIM, Q_XGETQSTATV."""
_QUOTACTL_FD: Final = 443
"""Its number, on all architectures."""
_ACCOUNTING: Final = 1 << 4
"""FS_QUOTA_PDQ_ACCT."""
_STATE_SIZE: Final = 160
"""Of fs_quota_statv; its flags are the second field."""
_STATE: Final = struct.Struct("=bxH")
_QUOTA_SIZE: Final = 112
"""Of fs_disk_quota: version, flags, fields that are set, id, block limits (hard, soft), inode limits, blocks, inodes."""
_QUOTA: Final = struct.Struct("=bbHIQQQQQQ")
_BLOCK_LIMITS: Final = 1 << 2 | 1 << 3
"""FS_DQ_BSOFT and FS_DQ_BHARD."""
_ATTRIBUTES: Final = struct.Struct("=IIIII8x")
"""fsxattr: flags, extent size, extents, project, extent size of copies."""
_GET_ATTRIBUTES: Final = 0x801C581F
_SET_ATTRIBUTES: Final = 0x401C5820
_INHERIT: Final = 0x200
"""FS_XFLAG_PROJINHERIT: what is made in a folder belongs to the folder's project."""
_LARGEST: Final = {0x58465342: 2**63 - 1, 0xEF53: 2**58 - 1}
"""XFS and ext4 -> the largest quota, in bytes, that the kubelet sets (linuxSupportedFilesystems)."""
_BLOCK: Final = 512
_STATFS_SIZE: Final = 256
_libc: Final = ctypes.CDLL(None, use_errno=True)


def accounts(file: int) -> bool:
    """Report whether project quotas count the file system, which must be XFS or ext4 (SupportsQuotas)."""
    state = bytearray(_STATE.pack(1, 0).ljust(_STATE_SIZE, b"\0"))
    try:
        if _kind(file) not in _LARGEST:
            return False
        _quotactl(file, _GET_STATE, 0, state)
    except OSError:
        return False
    return bool(_STATE.unpack_from(state)[1] & _ACCOUNTING)


def use_of(file: int, project: int) -> Count:
    """Return what the files of a project take, in whole KiB as xfs_quota prints it; raises OSError."""
    quota = bytearray(_QUOTA_SIZE)
    try:
        _quotactl(file, _GET, project, quota)
    except FileNotFoundError:  # XFS knows a project once it has files
        return Count(0, 0)
    *_, blocks, inodes = _QUOTA.unpack_from(quota)
    return Count(blocks // 2 * 1024, inodes)


def set_limit(file: int, project: int, *, largest: bool) -> None:
    """Set the largest quota there is, or none; raises OSError (SetQuotaOnDir)."""
    blocks = _LARGEST[_kind(file)] // _BLOCK if largest else 0
    quota = bytearray(_QUOTA.pack(1, _PROJECT, _BLOCK_LIMITS, project, blocks, blocks, 0, 0, 0, 0))
    _quotactl(file, _SET_LIMIT, project, quota.ljust(_QUOTA_SIZE, b"\0"))


def project_of(file: int) -> int:
    """Return the project of a file or folder; raises OSError."""
    return int(_ATTRIBUTES.unpack(fcntl.ioctl(file, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size)))[3])


def set_project(file: int, project: int, *, folder: bool) -> None:
    """Give a file to a project, or a folder with all that will be made in it; raises OSError."""
    flags, extents, count, before, copies = _ATTRIBUTES.unpack(
        fcntl.ioctl(file, _GET_ATTRIBUTES, bytes(_ATTRIBUTES.size))
    )
    wanted = flags | _INHERIT if folder else flags
    if (flags, before) != (wanted, project):
        fcntl.ioctl(file, _SET_ATTRIBUTES, _ATTRIBUTES.pack(wanted, extents, count, project, copies))


def _kind(file: int) -> int:
    """Return the magic number of the file system."""
    found = ctypes.create_string_buffer(_STATFS_SIZE)
    if _libc.fstatfs(file, found) != 0:
        raise _failed("fstatfs")
    return ctypes.c_long.from_buffer(found).value


def _quotactl(file: int, command: int, project: int, content: bytearray) -> None:
    address = (ctypes.c_char * len(content)).from_buffer(content)
    arguments = (ctypes.c_uint(file), ctypes.c_uint(command), ctypes.c_uint(project), ctypes.byref(address))
    if _libc.syscall(ctypes.c_long(_QUOTACTL_FD), *arguments) != 0:
        raise _failed("quotactl_fd")


def _failed(call: str) -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, f"{call}: {os.strerror(number)}")
