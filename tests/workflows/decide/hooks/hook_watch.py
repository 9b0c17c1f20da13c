"""Invariants of hooks, checked whenever the state machine's pod starts an action: none is repeated, skipped or overlapped."""

from functools import partial

from proto.temporal.activities.requests import RunHook, StartContainer, StopContainer
from proto.temporal.hooks import Hook
from proto.temporal.pod import ContainerState
from tests.workflows.decide.runtime_model import RuntimeModel
from workflows.decide.actions import Action, key
from workflows.decide.containers.restart_all import RESTARTING
from workflows.decide.hooks import hooks, own_hooks
from workflows.decide.manifest import hook_terms
from workflows.decide.situation import Situation


def is_before_start(action: Action) -> bool:
    """Return whether it is a preStart hook: a failed one runs again, and so does the start."""
    return isinstance(action, RunHook) and action.hook is Hook.PRE_START


def starts_under_way(here: Situation) -> int:
    """Count the pending starts, including a preStart hook in the current sandbox, which does not delay ephemeral containers."""
    starts = [one for one in here.busy.values() if isinstance(one, StartContainer)]
    before = [one for one in here.busy.values() if isinstance(one, RunHook) and is_before_start(one)]
    held = [one for one in starts if one.container["name"] not in here.ephemeral_names]
    return max(len(starts), len(held) + sum(one.sandbox_id == here.sandbox_id for one in before))


def check_hooks(here: Situation, action: Action, known: set[str], runtime: RuntimeModel) -> None:
    """No hook starts once its outcome is known, no container starts beside one, and no start or stop skips one.

    A restart of all containers has no grace period, and so no preStop hook.
    """
    match action:
        case RunHook():
            assert key(action) not in known, "a hook whose outcome is known runs again"
        case StartContainer(container={"name": own}) if own in here.ephemeral_names:
            assert here.facts(str(own)).exit is None, "an ephemeral container starts again"
        case StartContainer(container={"name": own}):
            facts, wanted = here.facts(str(own)), partial(hook_terms.terms, here.source, str(own))
            prepared = (action.sandbox_id, own, action.attempt) in runtime.prepared
            assert prepared or not wanted(Hook.PRE_START), "a preStart hook is skipped"
            if wanted(Hook.POST_STOP) and facts.exit and facts.container_id:
                assert key(own_hooks.post_stop(here, str(own))) in known, "a postStop hook is skipped"
            for one in here.containers:
                facts = here.facts(one.name)
                runs = facts.state is ContainerState.RUNNING and facts.sandbox_id == here.sandbox_id
                assert not runs or hooks.is_past_post_start(here, one), "nothing starts beside a hook"
        case StopContainer(name=name, asked_at=asked_at, grace=grace) if not action.reason.startswith(RESTARTING):
            if here.facts(name).state is ContainerState.RUNNING and hooks.has_pre_stop(here, name):
                ended = hooks.outcome(here, name, Hook.PRE_STOP)
                assert ended or asked_at + grace <= here.now, "a preStop hook is skipped"
