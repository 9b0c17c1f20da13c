"""Is qosReserved validated with the kubelet's rules and words, and in force only with its gate?"""

from pathlib import Path

import pytest

from tests.worker.settings.test_config import load
from worker.settings.kubelet.configuration import ConfigurationRefused

GATE = "featureGates: {QOSReserved: true}\n"
SAID = "qosReserved (--qos-reserved): "
FAILED = f'{SAID}failed to parse percentage "%s" for "memory" resource: '


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        pytest.param(GATE, None, id="without-the-key"),
        pytest.param(GATE + "qosReserved: {}", None, id="nothing"),
        pytest.param(GATE + "qosReserved: {memory: 50%}", 50, id="half"),
        pytest.param(GATE + "qosReserved: {memory: 0%}", 0, id="the-least"),
        pytest.param(GATE + "qosReserved: {memory: 100%}", 100, id="the-most"),
        pytest.param(GATE + "qosReserved: {memory: +7%%}", 7, id="as-go-reads-numbers"),
        pytest.param("featureGates: {AllAlpha: true}\nqosReserved: {memory: 50%}", 50, id="all-alpha-gates"),
    ],
)
def test_what_is_reserved(tmp_path: Path, text: str, percent: int | None) -> None:
    """Of the requested memory, without a warning about the key."""
    config = load(tmp_path, text)
    assert config.qos_reserved == percent
    assert not [one for one in config.warnings if "qosReserved" in one or "QOSReserved:" in one]


def test_without_its_gate(tmp_path: Path) -> None:
    """Nothing is reserved, and one line says so."""
    config = load(tmp_path, "qosReserved: {memory: 50%}")
    assert config.qos_reserved is None
    assert config.warnings == ("qosReserved: has no effect without the feature gate QOSReserved, which is off",)


@pytest.mark.parametrize("gate", ["", GATE], ids=["without-the-gate", "with-the-gate"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("cpu: 50%", f'{SAID}cannot reserve "cpu" resource', id="another-resource"),
        pytest.param("memory: '50'", f"{FAILED % '50'}percentage expected, got '50'", id="no-percentage"),
        pytest.param("memory: 1.5%", f"{FAILED % '1.5%'}invalid number in percentage '1.5%'", id="a-fraction"),
        pytest.param("memory: '%'", f"{FAILED % '%'}invalid number in percentage '%'", id="no-number"),
        pytest.param("memory: 101%", f"{FAILED % '101%'}percentage must be between 0 and 100", id="too-much"),
        pytest.param("memory: -1%", f"{FAILED % '-1%'}percentage must be between 0 and 100", id="negative"),
    ],
)
def test_what_is_refused(tmp_path: Path, gate: str, given: str, message: str) -> None:
    """By its key, whether the gate is on or off."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, f"{gate}qosReserved: {{{given}}}")
    assert message in str(refused.value).splitlines()[0]
