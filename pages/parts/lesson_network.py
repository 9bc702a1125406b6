"""Lessons about networks (DP-SGD, membership, pictures from gradients), and the one about choosing ε."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpcl_core.lessons import adding
from dpcl_core.lessons import network as game
from dpcl_core.privacy import statement
from dpcl_core.privacy.noise import ReleaseNoise
from pages.parts.layout import draw_table
from pages.parts.lesson_stage import Stage, by_name, reached

CLIPS = (0.3, 0.5, 1.0, 2.0, 5.0)
BATCHES = (8.0, 64.0, 256.0, 1024.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_SHOWN = 8


def _eight() -> tuple[NDArray[np.float64], list[str], NDArray[np.float64]]:
    """The first eight digits, their labels, and their gradients in a network after a few steps."""
    x, labels = game.digits(N_SHOWN)
    return x, [str(label) for label in labels], game.early_gradients(N_SHOWN)


def each_gradient(stage: Stage) -> int:
    """Eight pictures, and what each asks of one hidden unit."""
    x, names, rows = stage.results("Compute the gradients", _eight)
    lengths = game.lengths(rows)
    most, least = int(lengths.argmax()), int(lengths.argmin())
    ratio = lengths[most] / lengths[least]
    stage.strips(
        {"the pictures": x, "the gradient of each, at one unit": game.at_unit(rows)}, names,
        longest=names[most], shortest=names[least], most=lengths[most], least=lengths[least], ratio=ratio,
    )  # fmt: skip
    return reached(ratio, 2, 5)


def clip_each(stage: Stage) -> int:
    """The eight gradients before and after clipping."""
    (clip,) = stage.moved("Clip them", clip=CLIPS)
    _, names, rows = _eight()
    before, after = game.lengths(rows), game.lengths(game.clipped(rows, clip))
    strips = {"as computed": game.at_unit(rows), "clipped": game.at_unit(game.clipped(rows, clip))}
    stage.strips(strips, names, n_clipped=int((before > clip).sum()), before=before.max(), after=after.max())
    longest = rows[before.argmax()]
    (one,) = game.clipped(longest[None], 1.0)
    return 1 if np.allclose(one * before.max(), longest) else 0


def add_noise(stage: Stage) -> int:
    """Lengths of the sum of a batch's clipped gradients, and of the noise on it."""
    (batch,) = stage.moved("Add up, add noise", batch=BATCHES)

    def of(size: int) -> tuple[float, float]:
        total = game.clipped(game.early_gradients(size), 1.0).sum(axis=0)
        return float(np.linalg.norm(total)), float(np.linalg.norm(ReleaseNoise().added(total, 1.0) - total))

    signal, noise = stage.latest("noisy", lambda: of(int(batch)), batch)
    stage.bars({"sum of the clipped gradients": signal, "noise": noise}, signal=signal, noise=noise)
    few, most = of(8)
    return reached(most, few / 2, 2 * few)


def whole_training(stage: Stage) -> int:
    """Accuracy after the whole training at every budget."""
    n = len(game.digits()[0])
    clean = game.accuracy(game.plain(n))
    found, epsilon, nearest = stage.moved_in(
        "Train them all", lambda one: game.accuracy(game.private(n, one)), "epsilon", EPSILONS
    )
    rows = [(name, one, value) for one in EPSILONS for name, value in (("DP-SGD", found[one]), ("without noise", clean))]
    drawn = pd.DataFrame(rows, columns=["series", "x", "y"])
    stage.curves(
        drawn, chosen=epsilon, epsilon=nearest, sigma=game.sigma(nearest, n), accuracy=found[nearest], clean=clean
    )
    return reached(found[1.0], 0.3, 0.93)


# Lesson "Was she in the training?": losses of members and others, and what an attacker makes of them.


PEOPLE = (20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
CUTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
MEMBERS_EPSILONS = (1.0, 4.0, 16.0, 64.0)
_ATTACKED = "attacker right in pairs", "new digits recognised"


def _members(people: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return game.members(game.plain(int(people)), int(people))


def _attacked(people: float) -> tuple[float, float]:
    """How often the attacker is right in pairs, and the accuracy, without noise."""
    return game.pairs_right(*_members(people)), game.accuracy(game.plain(int(people)))


def two_losses(stage: Stage) -> int:
    """Mean loss of members and of others."""
    (people,) = stage.moved("Train it", people=PEOPLE)
    inside, outside = (float(one.mean()) for one in _members(people))
    means = {"digits that were in the training": inside, "others": outside}
    stage.bars(means, inside=inside, outside=outside, ratio=outside / inside)
    of_forty = [one.mean() for one in _members(40)]
    return reached(of_forty[1], 2 * of_forty[0], 10 * of_forty[0])


def draw_a_line(stage: Stage) -> int:
    """Shares of members and of others below every line."""
    people, cut = stage.moved("Try all lines", people=PEOPLE, cut=CUTS)
    groups = dict(zip(("digits that were in", "others"), _members(people), strict=True))
    lines = {name: [(group <= one).mean() for one in CUTS] for name, group in groups.items()}
    hits, alarms = (float((group <= cut).mean()) for group in groups.values())
    stage.curves(lines, CUTS, chosen=cut, hits=hits, alarms=alarms, right=(hits + 1 - alarms) / 2)
    inside, outside = _members(40)
    return reached(max(((inside <= one).mean() + (outside > one).mean()) / 2 for one in CUTS), 0.55, 0.7)


def more_people(stage: Stage) -> int:
    """The attack on pairs, and the accuracy, for every number of people."""
    lines = stage.results("Train them all", lambda: by_name(_ATTACKED, map(_attacked, PEOPLE)))
    right, _ = lines.values()
    stage.curves(lines, PEOPLE, few=PEOPLE[0], of_few=right[0], many=PEOPLE[-1], of_many=right[-1])
    change = right[-1] - right[0]
    return 0 if change > 0.05 else 1 if change > -0.05 else 2


def with_dp(stage: Stage) -> int:
    """The attack on pairs, and the accuracy, under DP-SGD at every budget."""
    values, epsilon, nearest = stage.moved_in("Train with noise", game.attacked, "epsilon", MEMBERS_EPSILONS)
    lines = by_name(_ATTACKED, values.values())
    (right, accuracy), (clean, clean_accuracy) = values[nearest], _attacked(game.N_MEMBERS)
    stage.curves(
        lines, MEMBERS_EPSILONS, chosen=epsilon, epsilon=nearest, right=right, accuracy=accuracy, clean=clean,
        clean_accuracy=clean_accuracy,
    )  # fmt: skip
    right, accuracy = values[1.0]
    return 0 if right > 0.68 else 1 if accuracy < clean_accuracy - 0.2 else 2


# Lesson "A picture from a gradient": what a server computes from what a phone sends.


SIGMAS = (0.003, 0.01, 0.03, 0.1, 1.0)


def _sent(stage: Stage, clip: float = np.inf, sigma: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eight pictures, and what a server computes from each one's gradient in the network before its first step."""
    x, labels = game.digits(N_SHOWN)
    rows = game.clipped(game.gradients(game.untrained(), x, labels), clip)
    if sigma:
        rows = stage.latest("noisy", lambda: ReleaseNoise().added(rows, sigma * clip), sigma)
    return x, np.stack([game.seen(row) for row in rows])


def _pictures(stage: Stage, x: NDArray[np.float64], found: NDArray[np.float64], **said: Any) -> None:
    names = [str(label) for label in game.digits(N_SHOWN)[1]]
    stage.strips({"on the phone": x, "computed by the server": np.clip(found, 0, 1)}, names, **said)


def one_picture(stage: Stage) -> int:
    """The pictures that eight gradients give away."""
    x, found = stage.results("Send the gradients", lambda: _sent(stage))
    worst = float(np.abs(found - x).max())
    _pictures(stage, x, found, worst=worst)
    return 2 if worst < 1e-6 else 1 if worst < 0.3 else 0


def a_batch(stage: Stage) -> int:
    """What the units of a mean gradient show."""
    (batch,) = stage.moved("Average them", batch=(1.0, 2.0, 8.0, 32.0))

    def blend(size: int) -> NDArray[np.float64]:
        return game.seen_by_units(game.gradients(game.untrained(), *game.digits(size)).mean(axis=0))

    def off(size: int) -> float:
        return min(game.error(one, two) for one in blend(size) for two in game.digits(size)[0])

    x = game.digits(min(int(batch), N_SHOWN))[0]
    names = [str(place) for place in range(1, 9)]
    rows = {"on the phone": x, "computed by the server, unit by unit": np.clip(blend(int(batch)), 0, 1)}
    stage.strips(rows, names, error=off(int(batch)))
    return 0 if off(8) < 0.05 else 1


def clip_only(stage: Stage) -> int:
    """The same division after clipping."""
    (clip,) = stage.moved("Clip and send", clip=(0.01, 0.1, 1.0))
    x, found = _sent(stage, clip)
    worst = float(np.abs(found - x).max())
    _pictures(stage, x, found, worst=worst)
    return 2 if worst < 1e-6 else 1


def and_noise(stage: Stage) -> int:
    """The same division under noise."""
    (sigma,) = stage.moved("Add noise and send", sigma=SIGMAS)
    x, found = _sent(stage, 1.0, sigma)
    grey = game.error(np.full_like(x, x.mean()), x)
    _pictures(stage, x, found, error=game.error(found, x), grey=grey)
    return reached(game.error(_sent(stage, 1.0, 1.0)[1], x), grey / 4, grey / 2)


# Lesson "Which ε?": what a budget rules out and costs, two cases, and a case of one's own.


LIMITS = (0.1, 0.3, 1.0, 3.0, 6.0, 10.0, 16.0)
COSTS = (0.25, 0.5, 1.0, 2.0, 8.0)
CODES = 10_000
_POINTS = "\N{NO-BREAK SPACE}".join("☐☐☐")
_CRITERIA = (
    ("Who and for how long", "names one person and all releases"),
    ("Against what", "says what a guesser can still learn, in odds"),
    ("At which price", "gives the loss of accuracy at this ε and at another"),
    ("Left outside", "names δ, and what is published exactly"),
    ("Who was asked", "says whose wishes decided, and how"),
)


def worst_case(stage: Stage) -> int:
    """How sure of a secret anyone can become."""
    (epsilon,) = stage.moved("Draw the limits", epsilon=LIMITS)
    names = {"two answers": 2, "a hundred": 100, "a four-digit code": CODES}
    lines = {name: [game.named(one, n) for one in LIMITS] for name, n in names.items()}
    stage.curves(lines, LIMITS, chosen=epsilon, two=game.named(epsilon, 2), code=game.named(epsilon, CODES))
    return reached(game.named(10, CODES), 0.01, 0.5)


def what_it_costs(stage: Stage) -> int:
    """Accuracy beside the limit of a guesser."""
    (epsilon,) = stage.moved("Compute both", epsilon=COSTS)
    both: dict[str, Callable[[float], float]] = {
        "new digits recognised": lambda one: adding.of_noise(one)[0],
        "a guesser is right, at most": lambda one: statement.odds_bound(one, game.DELTA),
    }
    gain, risk = (100 * (of(epsilon) - of(1.0)) for of in both.values())
    lines = {name: [of(one) for one in COSTS] for name, of in both.items()}
    stage.curves(lines, COSTS, chosen=epsilon, gain=gain, risk=risk)
    gained, risked = (of(8.0) - of(1.0) for of in both.values())
    return 0 if gained > risked + 0.01 else 1 if risked > gained + 0.01 else 2


def the_census(stage: Stage) -> int:
    """The budgets of a census."""
    stage.results("Look it up", lambda: True)
    people, homes = 17.14, 2.47
    stage.bars({"persons": people, "housing units": homes}, people=people, homes=homes, both=people + homes)
    return reached(people, 0.5, 5)


def the_model(stage: Stage) -> int:
    """What a language model knew by heart."""
    stage.results("Look it up", lambda: True)
    found, candidates = 604, 1800
    counts = {"confirmed in the training data": float(found), "not confirmed": float(candidates - found)}
    stage.bars(counts, found=found, candidates=candidates)
    return reached(found, 1, 50)


def your_case(stage: Stage) -> int:
    """The chosen budget in numbers, and the criteria of the debate."""
    (epsilon,) = stage.moved("Defend it", epsilon=LIMITS)
    draw_table(("At your ε", "limit"), [
        ("somebody who guesses “in or out” from even odds is right", f"{100 * statement.odds_bound(epsilon, 0):.2f} %"),
        ("somebody who guesses a four-digit code is right", f"{100 * game.named(epsilon, CODES):.2f} %"),
    ])  # fmt: skip
    draw_table(("Criterion", "two points if the case", "points"), [(*one, _POINTS) for one in _CRITERIA], names=2)
    return 1
