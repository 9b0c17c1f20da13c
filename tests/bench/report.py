"""The report of a session: the issue's rows, its limits, and the notes below them."""

import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from tests.bench.fleet import Idle
from tests.bench.manifests import GRACE_SECONDS
from tests.bench.pulled import SHARING, SLOW_SECONDS
from tests.bench.session import EXEC_PROBES, PROBES, Session, Watched
from tests.bench.single import Figure
from tests.bench.table import ABSENT, Row, difference_row, limit_row, render, seconds_row

SINGLE_OWED: Final[Sequence[tuple[str, Figure, Mapping[str, float]]]] = (
    ("one pod, manifest written -> running, p50", Figure.RUNNING, {"kubelet": 1.5}),
    ("three init containers, then running, p50", Figure.INIT_RUNNING, {"kubelet": 0.2}),
    ("three sidecars with startup probes, then two running, p50", Figure.SIDECARS_RUNNING, {"kubelet": 0.3}),
    ("one pod with ten volumes, p50", Figure.VOLUMES_RUNNING, {"kubelet": 1.5}),
    ("crash -> running again, first restart, p50", Figure.RESTARTED, {"kubelet": 0.2}),
)
VOLUMES_OWED: Final = 0.03
"""Seconds that ten volumes may add to a start."""
SLOW_PULL_OWED: Final = SLOW_SECONDS + 0.25
VERDICTS: Final = (
    ("readiness probe succeeds -> Ready in the status, p50", Figure.READY),
    ("liveness probe fails -> SIGTERM, process ended, p50", Figure.TERMINATED),
)
VERDICT_OWED: Final = 0.05
PROBE_TITLES: Final = {
    PROBES: "probes of {pods} pods, 3 a second each: CPU of one core beside idle",
    EXEC_PROBES: "exec probes of {pods} pods, one a second each: the same",
}
PROBES_OWED: Final = {PROBES: 25.0}
"""Percent of one core."""
FLEET_OWED: Final = {"raw": 1.2, "kubelet": 0.75}
DELETE_OWED: Final = GRACE_SECONDS + 0.3
CPU_OWED: Final = 0.75
RSS_OWED_MB: Final = 230  # of 2^20 bytes, as ps and top count
EVENTS_OWED: Final = 45
BYTES_OWED: Final = 40_000
OURS: Final = ("worker", "poller")
AGENTS: Final = (*OURS, "temporal", "kubelet")
"""The processes whose CPU counts for probes; the runtime's is shown beside it."""


def report(session: Session, missing: str) -> str:
    """Return the whole report; `missing` says why there is no kubelet, or is empty."""
    return render(list(_rows(session)), list(_notes(session, missing)))


def _rows(session: Session) -> Iterator[Row]:
    for title, figure, owed in SINGLE_OWED:
        if figure in session.figures:
            yield seconds_row(title, session.figures[figure], owed)
    if Figure.VOLUMES_ADD in session.figures:
        added = session.figures[Figure.VOLUMES_ADD]
        yield difference_row("... and what these add to a start without any, p50", added, VOLUMES_OWED)
    yield from _pull_rows(session)
    if session.fleet.by_peer:
        yield seconds_row(f"{session.plan.pods} pods at once, last running", session.fleet, FLEET_OWED)
    if Figure.STOPPED in session.figures:
        yield limit_row("delete one, grace 1 s: removed -> stopped, p50", session.figures[Figure.STOPPED], DELETE_OWED)
        yield limit_row("... -> its sandbox stopped, p50", session.figures[Figure.SANDBOX_STOPPED], 0)
    yield from _verdict_rows(session)
    if session.idle:
        yield _cpu_row(session.idle, session.plan.pods)
        yield _rss_row(session.idle, session.plan.pods)
    yield from _probes_rows(session)
    if session.watched is not None:
        yield from _history_rows(session.watched)


def _pull_rows(session: Session) -> Iterator[Row]:
    if Figure.SLOW_PULL in session.figures:
        slow = session.figures[Figure.SLOW_PULL]
        yield limit_row("one pod whose image takes 1 s to pull: written -> running, p50", slow, SLOW_PULL_OWED)
    if Figure.SHARED_PULLS in session.figures:
        yield limit_row(f"{SHARING} pods of one absent image, last running", session.figures[Figure.SHARED_PULL], 0)
        pulls = session.figures[Figure.SHARED_PULLS]
        ours, theirs = pulls.median("tempolet"), pulls.median("kubelet")
        yield Row(
            title="... and pulls of it",
            ours=f"{ours:g}",
            kubelet=ABSENT if math.isnan(theirs) else f"{theirs:g}",
            owed="1",
            met=None if math.isnan(ours) else ours == 1,
        )


def _verdict_rows(session: Session) -> Iterator[Row]:
    for title, figure in VERDICTS:
        if figure in session.figures:
            yield limit_row(title, session.figures[figure], VERDICT_OWED)


def _probes_rows(session: Session) -> Iterator[Row]:
    for row, title in PROBE_TITLES.items():
        if row in session.probed:
            yield _probes_row(title.format(pods=session.plan.pods), session, row)


def _cpu_row(idle: Mapping[str, Idle], pods: int) -> Row:
    ours, kubelet = idle.get("tempolet"), idle.get("kubelet")
    ratio = ours.cpu_total / kubelet.cpu_total if ours and kubelet else None
    return Row(
        title=f"idle CPU with {pods} pods, of one core",
        ours=_parts(ours.cpu_percent, "%") if ours else ABSENT,
        kubelet=_parts(kubelet.cpu_percent, "%") if kubelet else ABSENT,
        ratio=f"{ratio:.2f} x kubelet" if ratio is not None else ABSENT,
        owed=f"{CPU_OWED:g} x kubelet",
        met=ratio <= CPU_OWED if ratio is not None else None,
    )


def _probes_row(title: str, session: Session, row: str) -> Row:
    costs = {peer: _beside_idle(session, row, peer) for peer in session.probed[row] if peer in session.idle}
    own = {peer: {name: cost[name] for name in cost if name in AGENTS} for peer, cost in costs.items()}
    total = {peer: sum(parts.values()) for peer, parts in own.items()}
    written = {peer: f"{_parts(own[peer], '%')}; containerd {costs[peer]['containerd']:.1f}" for peer in costs}
    comparable = len(total) > 1 and total["kubelet"] > 0
    owed = PROBES_OWED.get(row)
    return Row(
        title=title,
        ours=written.get("tempolet", ABSENT),
        kubelet=written.get("kubelet", ABSENT),
        ratio=f"{total['tempolet'] / total['kubelet']:.2f} x kubelet" if comparable else ABSENT,
        owed=f"{owed:g}%" if owed else "",
        met=_probes_met(session, row, total["tempolet"], owed) if owed and "tempolet" in total else None,
    )


def _beside_idle(session: Session, row: str, peer: str) -> Mapping[str, float]:
    idle = session.idle[peer].cpu_percent
    return {name: value - idle[name] for name, value in session.probed[row][peer].cost.cpu_percent.items()}


def _probes_met(session: Session, row: str, percent: float, owed: float) -> bool:
    """Check the CPU, that histories do not grow, and that at least nine of ten probes have run."""
    ours = session.probed[row]["tempolet"]
    probed = all(rate >= 0.9 * session.plan.pods for rate in ours.answered.values())
    return percent <= owed and ours.cost.events_added == 0 and probed


def _rss_row(idle: Mapping[str, Idle], pods: int) -> Row:
    ours, kubelet = idle.get("tempolet"), idle.get("kubelet")
    mine = {name: ours.rss_mib[name] for name in OURS} if ours else {}
    temporal = f"; Temporal {ours.rss_mib['temporal']:.0f} MB" if ours else ""
    return Row(
        title=f"RSS with {pods} pods",
        ours=_parts(mine, " MB") + temporal if ours else ABSENT,
        kubelet=f"{kubelet.rss_mib['kubelet']:.0f} MB" if kubelet else ABSENT,
        owed=f"{RSS_OWED_MB} MB",
        met=sum(mine.values()) <= RSS_OWED_MB if ours else None,
    )


def _history_rows(watched: Watched) -> Iterator[Row]:
    first = watched.at_start
    yield Row(
        title="history of one plain pod until running",
        ours=f"{first.events} events, {first.size_bytes / 1000:.1f} KB",
        owed=f"{EVENTS_OWED} events, {BYTES_OWED // 1000} KB",
        met=first.events <= EVENTS_OWED and first.size_bytes <= BYTES_OWED,
    )
    if watched.at_end is not None:
        added = watched.at_end.events - first.events
        yield Row(
            title=f"... then, watched for {watched.seconds / 60:.1f} min",
            ours=f"{added} events ({added * 3600 / watched.seconds:.0f} an hour)",
            owed="0 an hour",
            met=added == 0,
        )


def _parts(by_name: Mapping[str, float], unit: str) -> str:
    """Format a total and its parts."""
    digits = 1 if unit == "%" else 0
    parts = " + ".join(f"{name} {value:.{digits}f}" for name, value in by_name.items())
    return f"{sum(by_name.values()):.{digits}f}{unit} ({parts})"


def _notes(session: Session, missing: str) -> Iterator[str]:
    plan = session.plan
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    yield (
        f"{plan.pairs} interleaved pairs for one pod, {plan.rounds} rounds of {plan.pods} pods; ratios are medians of the "
        f"pairs' ratios. {os.cpu_count()} processors, Linux {platform.release()}, load at the end {load}."
    )
    yield "Each peer has its own containerd of the same program and configuration; see tests/bench/README.md."
    if missing:
        yield f"No kubelet, so every comparison with it is missing: {missing}"
    if (ours := session.idle.get("tempolet")) and ours.events_added is not None:
        yield f"{plan.pods} pods left alone for {ours.seconds:.0f} s added {ours.events_added} events to all histories."
    yield from _probe_notes(session)
    yield from _spreads(session)
    yield from (f"Failed: {failure}" for failure in session.failures)


def _probe_notes(session: Session) -> Iterator[str]:
    for row, by_peer in session.probed.items():
        for peer, probed in by_peer.items():
            rates = ", ".join(f"{kind} {rate:.0f}" for kind, rate in probed.answered.items())
            yield f"{row} rows, {peer}: " + "; ".join(
                [
                    f"RSS {_parts(probed.cost.rss_mib, ' MB')}",
                    *([f"answered a second: {rates}"] if rates else []),
                    *([f"{added} events added"] if (added := probed.cost.events_added) is not None else []),
                ]
            )


def _spreads(session: Session) -> Iterator[str]:
    """Describe the spread of single laps, so that a ratio can be judged."""
    for figure, samples in session.figures.items():
        yield f"{figure}: " + ", ".join(f"{peer} {_spread(values)}" for peer, values in samples.by_peer.items())
    if session.fleet.by_peer:
        rounds = {peer: " ".join(f"{value:.1f}" for value in values) for peer, values in session.fleet.by_peer.items()}
        yield f"{session.plan.pods} pods: " + ", ".join(f"{peer} {values} s" for peer, values in rounds.items())


def _spread(values: Sequence[float]) -> str:
    good = sorted(value for value in values if value == value)  # noqa: PLR0124 - excludes nan
    return f"{good[0]:.3f}-{median(good):.3f}-{good[-1]:.3f} s" if good else ABSENT
