"""Where a run ended between chance, the untrained network and the ceiling: in words, and whether it can be told from chance.

The rule: a budget is told from chance if both parts hold, each with probability `ALPHA` at most for a run that only guesses.

* Over test examples: the mean score over seeds is more than n examples give by luck. For independent examples with scores in
  [0, 1], each weighted by 1/n at most, whose mean has expectation p or less, P(mean >= q) <= exp(-n KL(q || p)) for q > p
  (Hoeffding 1963, Theorem 1; unequal weights enter by convexity). Seeds share the test examples and do not multiply them: an
  example counts once, with its mean score over seeds.
* Over seeds, from three on: Student's one-sided t on their final scores. It counts the luck of noise, order and batches,
  which can make a model right or wrong on all examples of a class together. With fewer seeds that luck is not counted, and
  the sentence says how few there are.

Entity F1 is no mean over examples: only the second part applies to it, and nothing is said of fewer than three seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.special import rel_entr, stdtrit

from dpcl_core.events import References
from dpcl_core.figures.picture import capital, counted, epsilon_phrase
from dpcl_core.figures.statistics import MIN_SEEDS
from dpcl_core.privacy.statement import Standing

ALPHA = 0.01
CEILING = "all at once without noise"
_SAME = 5e-4  # scores that print alike


def lucky(chance: float, n_tested: float) -> float:
    """The mean score that guessing exceeds on n test examples with probability `ALPHA` at most; 1 if n is too small."""
    wanted = math.log(1 / ALPHA) / n_tested
    if chance <= 0:
        return 0.0  # whoever is never right by luck is told from chance by one right answer
    if chance >= 1 or _divergence(1.0, chance) <= wanted:
        return 1.0
    low, high = chance, 1.0
    for _ in range(50):  # halvings
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(middle, chance) < wanted else (low, middle)
    return high


def is_told_from_chance(values: Sequence[float], references: References) -> bool | None:
    """Whether the final scores of one budget, one per seed, are better than chance by the rule; None: cannot be judged."""
    n, mean = len(values), fmean(values)
    if references.n_tested is None and n < MIN_SEEDS:
        return None
    if references.n_tested is not None and mean <= lucky(references.chance, references.n_tested):
        return False
    if n < MIN_SEEDS:
        return True
    margin = float(stdtrit(n - 1, 1 - ALPHA)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean - margin > references.chance


def sentence(
    epsilon: float, values: Sequence[float], references: References, *, score: str = "accuracy", standing: Standing = "bound"
) -> str:
    """One sentence: where the run ended at this budget, between which scores. `values`: final scores, one per seed."""
    mean, seeds = fmean(values), "" if len(values) >= MIN_SEEDS else f" ({counted(len(values), 'seed')})"
    at = capital(epsilon_phrase(epsilon, standing))
    return f"{at} the run ends at {_percent(mean)} {score}{seeds}: {levels(references)}{_share(mean, references)}."


def levels(references: References) -> str:
    """What guessing, the untrained network and learning all at once give, as far as they are known, for a sentence."""
    chance, untrained, ceiling = references.chance, references.untrained, references.ceiling
    known = [f"guessing gives {_percent(chance)}"]
    if untrained is not None and abs(untrained - chance) < _SAME:
        known = [f"guessing, which is all that the untrained network can do, gives {_percent(chance)}"]
    elif untrained is not None:
        known.append(f"the untrained network {_percent(untrained)}")
    if ceiling is not None:
        known.append(f"{CEILING} {_percent(ceiling)}")
    return " and ".join(known) if len(known) < 3 else f"{known[0]}, {known[1]} and {known[2]}"


def warning(
    finals: Mapping[float, Sequence[float]], references: References, *, score: str = "accuracy", standing: Standing = "bound"
) -> str:
    """The budgets that cannot be told from chance, with the rule; empty if there are none. `finals`: scores by budget."""
    lost = {epsilon: v for epsilon, v in finals.items() if is_told_from_chance(v, references) is False}
    if not lost:
        return ""
    budgets = " and ".join(
        f"{epsilon_phrase(epsilon, standing)} ({_percent(fmean(values))})" for epsilon, values in sorted(lost.items())
    )
    n = max(map(len, lost.values()))
    tested = "" if references.n_tested is None else f"{references.n_tested:,.0f} test examples and "
    return (
        f"Cannot be told from guessing, which gives {_percent(references.chance)} {score}: {budgets}. "
        f"The rule counts {tested}{counted(n, 'seed')}; a run that only guesses passes it at most once in "
        f"{1 / ALPHA:.0f} times."
    )


def _share(mean: float, references: References) -> str:
    """How much of the way to the ceiling, or how it compares with the untrained network, as the end of the sentence."""
    untrained, ceiling = references.untrained, references.ceiling
    floor = max(references.chance, untrained or 0.0)
    if untrained is not None and untrained - references.chance >= _SAME and mean < untrained - _SAME:
        return ", so it ends below the untrained network"
    if ceiling is None or ceiling <= floor + _SAME:
        return ""
    if mean >= ceiling - _SAME:
        return ", so it reaches the ceiling"
    return f", so it covers {max(0.0, (mean - floor) / (ceiling - floor)):.0%} of the way to the ceiling".replace("%", " %")


def _percent(value: float) -> str:
    return f"{round(100 * value, 6):.1f} %"  # 65.25 and 65.25000000000001 print alike


def _divergence(q: float, p: float) -> float:
    """Kullback-Leibler divergence of coins with these probabilities of heads, in nats."""
    return float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))
