"""Do memory and time stay bounded, whatever 10 MB are in the manifest folder?"""

import subprocess
import sys

BOMBS = {
    "brackets": "b'[' * M",
    "flow list": "b'a: [' + b'x,' * (M // 2)",
    "block list": "b'- a\\n' * (M // 4)",
    "keys": "b''.join(b'k%d: 1\\n' % n for n in range(700_000))",
    "anchors": "b''.join(b'k%d: &a%d 1\\n' % (n, n) for n in range(400_000))",
    "documents": "b'---\\n' * (M // 4)",
    "text of aliases": "b'a: &a ' + b'x' * 10**6 + b'\\nb: [' + b'*a,' * 10**6 + b']'",
    "emoji": "b'a: \"' + b'\\xf0\\x9f\\x98\\x80' * (M // 4 - 2) + b'\"'",
    "JSON brackets": "b'{\"a\":' + b'[' * (M - 5)",
    "JSON list": "b'{\"a\":[' + b'{},' * (M // 3 - 3) + b'1]}'",
    "JSON digits": "b'{\"a\":' + b'1' * (M - 6) + b'}'",
    "JSON escapes": "b'{\"a\":\"' + b'\\\\n' * (M // 2 - 5) + b'\"}'",
    "JSON emoji": "b'{\"a\":\"' + b'\\xf0\\x9f\\x98\\x80' * (M // 4 - 3) + b'\"}'",
    "endless image": "POD + b'    image: ' + b'a/' * (M // 3)",
    "endless quantity": "POD + b'    resources: {limits: {cpu: \"' + b'1' * (M - 1000) + b'\"}}'",
    "bad labels": "HEAD.replace(b'}', b', labels: {%s}}' % b','.join(b'-k%d: 1-' % n for n in range(40_000)))",
    "slashes": "HEAD.replace(b'}', b', labels: {? %s : x}}' % (b'/' * (M - 1000)))",
}
MEASURE = """
import resource, sys, time
from tests.worker.poller.manifests.test_manifest import HEAD, POD, read
from tests.worker.poller.manifests.test_manifest_bounds import BOMBS
M = 10 * 2**20
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
for name, made_by in BOMBS.items():
    data, before, started = eval(made_by), peak(), time.process_time()
    answer = read(data)
    print(name, peak() - before, time.process_time() - started, type(answer).__name__, sep=";")
"""


def test_memory_and_time_stay_bounded() -> None:
    """No 10 MB of any kind cost more than five times their size, or more than a few seconds."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    lines = [line.split(";") for line in done.stdout.splitlines()]
    assert [name for name, *_ in lines] == list(BOMBS)
    for name, grown, seconds, answer in lines:
        assert answer == "Refused", name
        assert int(grown) <= 64, f"{name}: {grown} MB"
        assert float(seconds) < 5, f"{name}: {seconds} s"
