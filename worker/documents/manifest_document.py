"""Reads the one YAML or JSON document of a file from its bytes.

Used for manifests, and by `worker/objects/` for the objects that pods refer to, with the same limits.
"""

import codecs
from typing import Any, Final

from worker.documents.manifest_json import read_json
from worker.documents.manifest_refusal import LARGEST_FILE, ManifestUnreadable
from worker.documents.manifest_yaml import read_yaml

_CHUNK: Final = 64 * 1024


def read_document(data: bytes, expected: str = "a Pod of apiVersion v1") -> Any:
    """Read the one YAML or JSON document of a file; raises ManifestUnreadable."""
    if len(data) > LARGEST_FILE:
        raise ManifestUnreadable("TooLarge", f"the file is larger than {LARGEST_FILE} bytes")
    data = data.removeprefix(codecs.BOM_UTF8)
    _refuse_binary(data)
    document = read_json(data.decode()) if data.lstrip().startswith(b"{") else read_yaml(data)
    if document is None:
        raise ManifestUnreadable("Empty", f"the file is empty; {expected} is expected")
    return document


def _refuse_binary(data: bytes) -> None:
    """Refuse NUL bytes and invalid UTF-8, without decoding a large file as a whole."""
    if (nul := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise ManifestUnreadable("NotText", f"line {line}: a NUL byte; is it a text file?")
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data) + 1, _CHUNK):
        try:
            decoder.decode(data[start : start + _CHUNK], final=start + _CHUNK > len(data))
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, start + error.start) + 1
            raise ManifestUnreadable("NotText", f"about line {line}: not UTF-8 ({error.reason})") from error
