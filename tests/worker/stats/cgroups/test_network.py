"""Can a pod with NET_ADMIN break the metrics by the names of its network devices, which may be any bytes?"""

from prometheus_client.parser import text_string_to_metric_families

from worker.stats.cgroups.network import parse_devices
from worker.stats.cgroups.usage import CgroupUsage
from worker.stats.prometheus.cadvisor_families import families
from worker.stats.prometheus.container_rows import Processes, Row
from worker.telemetry.exposition import render

TABLE = b"""Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0
a"}1#\xff\\: 7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0
"""


def test_devices_are_told_by_whatever_name() -> None:
    """Every line can be parsed, and no name ends early."""
    devices = parse_devices(TABLE)
    assert [(one.name, one.received_bytes, one.sent_dropped) for one in devices] == [
        ("eth0", 100, 7),
        ('a"}1#\\xff\\', 7, 0),
    ]
    row = Row('pod="p"', CgroupUsage(at=1.0), 0.0, Processes(), devices)
    told = render(families([row], (), {})).decode()
    found = {one.name: one for one in text_string_to_metric_families(told)}
    received = found["container_network_receive_bytes"].samples
    assert [(one.labels, one.value) for one in received] == [
        ({"pod": "p", "interface": "eth0"}, 100),
        ({"pod": "p", "interface": 'a"}1#\\xff\\'}, 7),
    ]
