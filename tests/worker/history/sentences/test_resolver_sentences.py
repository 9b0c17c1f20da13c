"""Does the history report what was left out of resolv.conf?"""

from proto.temporal import names
from proto.temporal.activities import requests
from tests.worker.history.story_recorder import RUN_SANDBOX, Recorder

LEFT_OUT = "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted"


def test_what_was_left_out_of_a_resolver() -> None:
    """Behind the sandbox that it was left out of, in the words of the kubelet's event."""
    recorded = Recorder()
    recorded.begin()
    recorded.do(names.RUN_POD_SANDBOX, RUN_SANDBOX, requests.PodSandbox("s1", 0, notices=(LEFT_OUT,)), took=1)
    assert recorded.texts()[1:] == ["sandbox attempt 0 ready in 1.00 s", LEFT_OUT]
