"""Does a library that is imported without a part still work?"""

import subprocess
import sys

CODE = """
import ssl
whole = ssl.create_default_context
from worker.daemon.lean_imports import bare_aiohttp
bare_aiohttp()
assert ssl.create_default_context is whole
from aiohttp import connector
context = connector._SSL_CONTEXT_VERIFIED
assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
print(context.cert_store_stats()["x509"])
"""


def test_aiohttp_trusts_nobody_by_itself() -> None:
    """A connection without a TLS context of its own is refused, and the default context is restored for others."""
    answer = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == "0"
