"""Attack on DP-A-GEM: simulates all steps and replays that may read one example, with the method's own mechanisms."""

from __future__ import annotations

from dpcl_core.attacks import dpsgd_trace
from dpcl_core.attacks.dpsgd_trace import StepGroup
from dpcl_core.methods.common.public_sizes import PublicSizes, of_spec
from dpcl_core.methods.lifelong import odometer
from dpcl_core.methods.lifelong.cards.dp_agem_params import DpAgemParams
from dpcl_core.methods.lifelong.dp_agem import schedule
from dpcl_core.privacy.lower_bound import Audited, lower_bound
from dpcl_core.spec import RunSpec

_ADVERSARY = (
    "sees every noisy gradient and reference, knows all other examples and their coins, and that the example in question is "
    "kept; its gradient is as long as clipping lets it be, at a right angle to all others"
)


def audit(spec: RunSpec, trials: int) -> list[Audited]:
    """One membership attack per budget of the spec, on the worst-off person's example.

    The neighbours: one example more or less; under "replace" one with the opposite gradient. The attacker sums the
    log-likelihood ratios of all steps and replays that may have read it, the most powerful test if all other examples and
    their coins are known. Args: trials: simulated trainings on each side.
    """
    assert isinstance(spec.params, DpAgemParams)
    facts = of_spec(spec)
    return [_attacked(spec, spec.params, facts, epsilon, trials) for epsilon in spec.privacy.epsilons]


def _attacked(spec: RunSpec, params: DpAgemParams, facts: PublicSizes, epsilon: float, trials: int) -> Audited:
    plan = odometer.plan(params, spec.privacy, facts.n_tasks, facts.recurrence)
    noises = odometer.noises(params, plan, epsilon)
    turns = odometer.capped_schedule(plan, noises, params.memory_epsilon_cap)
    person = max(
        range(facts.n_tasks), key=lambda task: plan.epsilon(plan.steps_of(task, noises, odometer.n_uses(plan, turns, task)))
    )
    n_uses = odometer.n_uses(plan, turns, person)
    tasks = range(facts.n_tasks) if facts.recurrence == "every" else (person,)
    training, replay = (schedule(params, facts.task_size, is_replay=is_replay) for is_replay in (False, True))
    trace = [StepGroup(training, noises.of(task), training.n_steps) for task in tasks]
    trace.append(StepGroup(replay, noises.later, n_uses))
    is_replaced = spec.privacy.adjacency == "replace"
    return Audited(
        claimed=epsilon,
        accounted=plan.epsilon(plan.steps_of(person, noises, n_uses)),
        lower_bound=lower_bound(
            dpsgd_trace.scores(trace, 1.0, is_replaced, trials),
            dpsgd_trace.scores(trace, -1.0 * is_replaced, is_replaced, trials),
            spec.privacy.delta,
        ),
        delta=spec.privacy.delta,
        confidence=0.95,
        trials=trials - trials // 2,
        attack="likelihood ratio of all steps and replays together",
        adversary=_ADVERSARY,
    )
