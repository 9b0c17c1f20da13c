"""Does any sequence of bytes give a pod or a refusal, and never an exception?"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.worker.poller.manifests.test_manifest import BOMB, HEAD, POD, read
from worker.poller.manifests.static_pod import Refused

fragments = st.sampled_from(
    [
        POD,
        HEAD,
        BOMB,
        b"&a ",
        b"*a",
        b"<<: ",
        b"- ",
        b": ",
        b"\n  ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"'",
        b'"',
        b"|\n",
        b"!!int ",
        b"\xff",
        b"---\n",
        b"%YAML 1.1\n",
        b"yes",
        b"0x1f",
        b"1e3",
        b"2026-01-01",
        b"\\ud800",
        b"\xf0\x9f\x98\x80",
        b"#",
        b",",
        b"? ",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.binary() | st.lists(fragments | st.binary(max_size=4), max_size=12).map(b"".join))
@example(b'{"apiVersion": "v1", "kind": "Pod", "\\ud800": 1}')
@example(b'{"apiVersion": [[[]]], "kind": {"a": 1}}')
def test_any_bytes_are_answered(data: bytes) -> None:
    """Nothing is raised, whatever the bytes are, and messages can be printed and written as UTF-8."""
    answer = read(data)
    if isinstance(answer, Refused):
        assert answer.messages
        assert answer.message.isprintable()
        assert answer.message.encode()
