"""The hash of a container's name and image (pkg/kubelet/container/helpers.go HashContainer).

`activities/cri_config/container_config.py` writes it to each container, and
`workflows/decide/containers/definitions.py` compares it with the spec. A kubelet that takes over the node compares it,
too.
"""

import json
from typing import Final

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_FNV_MASK: Final = 0xFFFFFFFF


def container_hash(name: str, image: str) -> str:
    """Hash a container's name and image as the kubelet does: 32-bit FNV-1a of Go's dump of their JSON, in hex."""
    text = json.dumps({"image": image, "name": name}, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":  # Go's encoder escapes them for HTML
        text = text.replace(character, f"\\u{ord(character):04x}")
    dumped = f"([]uint8)[{' '.join(str(byte) for byte in text.encode())}]"
    return f"{fnv32a(dumped):x}"


def fnv32a(text: str) -> int:
    """Hash a text: 32-bit FNV-1a, as in the checksums of the kubelet's state files. What UTF-8 cannot write is a question mark."""
    digest = _FNV_OFFSET
    for byte in text.encode(errors="replace"):
        digest = ((digest ^ byte) * _FNV_PRIME) & _FNV_MASK
    return digest
