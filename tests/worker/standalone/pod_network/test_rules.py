"""Are the rules of host ports that are removed ours, in nftables and in iptables, and nobody else's?"""

import pytest

from worker.standalone.pod_network import iptables_rules
from worker.standalone.pod_network.network import PodNetwork
from worker.standalone.pod_network.nft_rules import pod_rules, removal_of_unused, stale_host_ports

LISTED = """\
table ip cni_hostport { # handle 7
	chain hostports { # handle 1
		tcp dport 8080 dnat to 10.9.0.4:80 comment "a" # handle 11
		tcp dport 8081 dnat to 10.8.0.4:80 comment "b" # handle 12
	}
	chain hostports_all { # handle 3
		jump hostports # handle 15
	}
	chain masquerading { # handle 2
		ip saddr 10.9.0.4 ip daddr 10.9.0.4 masquerade comment "a" # handle 13
		ip saddr 127.0.0.1 ip daddr 10.8.0.4 masquerade comment "b" # handle 14
	}
}
"""


def test_only_host_ports_of_the_own_subnet_are_stale() -> None:
    """Another instance's, or another CNI user's, are left alone."""
    assert stale_host_ports(LISTED, "10.9.0.0/24") == [("hostports", "11"), ("masquerading", "13")]
    assert stale_host_ports(LISTED, "10.7.0.0/24") == []
    assert stale_host_ports("", "10.9.0.0/24") == []


def test_one_rule_masquerades_the_subnet() -> None:
    """Replaced each time, so that it is never there twice."""
    rules = pod_rules(PodNetwork("br1", "10.9.0.0/24"))
    assert rules.startswith("table ip br1\ndelete table ip br1\n")
    assert "ip saddr 10.9.0.0/24 ip daddr != 10.9.0.0/24 masquerade" in rules
    assert 'iifname "br1" ip daddr 127.0.0.0/8 drop' in rules
    assert 'iifname "br1" ip saddr 127.0.0.0/8 drop' in rules


def test_the_plugins_table_goes_with_its_last_host_port() -> None:
    """Chains of pods are not flushed: nft refuses everything if another host port has been added meanwhile."""
    assert removal_of_unused(LISTED, "ip", "cni_hostport") == []
    assert removal_of_unused("", "ip", "cni_hostport") == []
    unused = "\n".join(line for line in LISTED.splitlines() if " dnat " not in line)
    assert removal_of_unused(unused, "ip", "cni_hostport") == [
        "flush chain ip cni_hostport hostports_all",
        "delete chain ip cni_hostport hostports",
        "delete chain ip cni_hostport hostports_all",
        "delete chain ip cni_hostport masquerading",
        "delete table ip cni_hostport",
    ]


IN_NAT = """\
-P PREROUTING ACCEPT
-N CNI-DN-aa
-N CNI-DN-bb
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-MASQ
-N CNI-HOSTPORT-SETMARK
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.9.0.0/24 ! -d 10.9.0.0/24 -m comment --comment tempolet:br1 -j MASQUERADE
-A POSTROUTING -s 10.8.0.0/24 ! -d 10.8.0.0/24 -m comment --comment tempolet:br10 -j MASQUERADE
-A CNI-DN-aa -s 10.9.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-aa -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.9.0.4:80
-A CNI-DN-bb -p tcp -m tcp --dport 8081 -j DNAT --to-destination 10.8.0.4:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"br1\\" id: \\"a\\"" -m multiport --dports 8080 -j CNI-DN-aa
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"br10\\" id: \\"b\\"" -m multiport --dports 8081 -j CNI-DN-bb
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
""".splitlines()


def test_only_chains_that_lead_into_the_own_subnet_are_stale_in_iptables() -> None:
    """They go with the jumps to them; the other instance's stay, and so the shared ones."""
    assert iptables_rules.stale_chains(IN_NAT, "10.9.0.0/24") == ["CNI-DN-aa"]
    assert iptables_rules.without(IN_NAT, ["CNI-DN-aa"]) == [
        "*nat",
        next(line for line in IN_NAT if line.endswith("-j CNI-DN-aa")).replace("-A", "-D", 1),
        "-F CNI-DN-aa",
        "-X CNI-DN-aa",
        "COMMIT",
    ]
    assert iptables_rules.stale_chains(IN_NAT, "10.7.0.0/24") == []
    assert iptables_rules.without(IN_NAT, []) == []
    assert iptables_rules.unused_chains(IN_NAT) == []


def test_the_plugins_shared_chains_go_with_its_last_host_port() -> None:
    """Each with the jump to it."""
    nobody = [line for line in IN_NAT if "CNI-DN-" not in line]
    unused = iptables_rules.unused_chains(nobody)
    assert unused == ["CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"]
    lines = iptables_rules.without(nobody, unused)
    assert [line.split()[1] for line in lines if line.startswith("-D")] == ["PREROUTING", "OUTPUT", "POSTROUTING"]
    assert [line for line in lines if line.startswith("-X")] == [f"-X {chain}" for chain in unused]


@pytest.mark.parametrize(
    ("bridge", "count"),
    [
        pytest.param("br1", 1, id="not-of-a-bridge-whose-name-begins-so"),
        pytest.param("br10", 1, id="the-other"),
        pytest.param("br", 0, id="none"),
    ],
)
def test_own_rules_are_known_by_their_comment(bridge: str, count: int) -> None:
    """By the whole of it."""
    found = iptables_rules.own_rules(IN_NAT, PodNetwork(bridge, "10.9.0.0/24"))
    assert len(found) == count
    assert all(f"tempolet:{bridge} " in line for line in found)
