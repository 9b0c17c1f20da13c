"""The current details that the Temporal UI shows of a node: its image file system and what is done about it."""

from proto.temporal.node import NodeObserved
from proto.temporal.pod_inputs import HandBack
from workflows.decide.node.image_collection import size_in_words
from workflows.loops.card import code, moment, outage_words, strangers_words


def node_card(observed: NodeObserved, busy: frozenset[str], handed_back: HandBack | None = None) -> str:
    """Write the card."""
    parts = []
    if (disk := observed.disk) and observed.seen_at:
        of = f"{disk.used_percent} % of {size_in_words(disk.capacity_bytes)}"
        parts.append(f"**images**: {len(observed.ages)}, their disk {of} full, as seen at {moment(observed.seen_at)}")
    if observed.too_full:
        parts.append(f"**FreeDiskSpaceFailed**: {code(observed.too_full)}")
    if observed.to_prepull:
        parts.append("to prepull: " + ", ".join(code(image) for image in observed.to_prepull))
    parts += [
        f"{code(image)} not prepulled: {failure.reason}: {code(failure.message)}"
        for image, failure in observed.prepull_failures.items()
    ]
    parts += [
        f"hardware of {code(f'{one.namespace}/{one.name}')}: {code(words)}"
        for one in observed.assignments.values()
        for words in one.why
    ]
    if busy:
        parts.append("under way: " + ", ".join(code(key) for key in sorted(busy)))
    if observed.news:
        parts.append("\n".join(f"- {moment(one.at)} {code(one.words)}" for one in reversed(observed.news)))
    outage = outage_words(handed_back, "the images", "the history of this workflow tells what happened")
    return "\n\n".join(parts) + outage + strangers_words(observed.dropped)
