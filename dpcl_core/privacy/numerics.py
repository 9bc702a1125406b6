"""A root between two ends, the normal distribution with its far tail, Student's quantiles: what runs need of SciPy, which
takes longer to load than a small run takes.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Point = tuple[float, float]

_DIGITS = 35
_ROUNDING = 4 * 2.0**-52
# Below it five terms of the series of the tail are enough, and above it erfc is not 0.
_FAR = -25.0


def rounded_up(x: float) -> float:
    """x >= 0 rounded up to 35 binary digits: never less than x, and by 2^-34 of x more at most. Infinity stays.

    x = p 2^e with p in [1/2, 1), and scaling by powers of 2 is exact: the result is ceil(2^35 p) 2^(e - 35), less than
    2^(e - 35) <= 2^-34 x above x. Computers whose exponentials differ in last digits then agree, but for values that have a
    step of these digits between them: they are one step apart.
    """
    if not math.isfinite(x):
        return x
    part, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(part, _DIGITS)), exponent - _DIGITS)


def root(
    function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12, rtol: float = _ROUNDING
) -> float:
    """Where a continuous function is 0, to within xtol + rtol |root|. It must have different signs at both ends.

    Brent's method (1973, chapter 4): a secant or an inverse parabola through the last points where it is short enough, else
    the middle, so that it needs no more than the square of a bisection's steps. Raises ValueError.
    """
    (x, y), before = (high, function(high)), (low, function(low))
    if y * before[1] > 0 or math.isnan(y * before[1]):
        raise ValueError(f"no root is known between {low} and {high}: the function is {before[1]} and {y} there")
    across, step, last = before, 0.0, 0.0
    while True:
        if y != 0 and before[1] != 0 and (y < 0) != (before[1] < 0):  # the root is between the last two points
            across, step = before, x - before[0]
            last = step
        if abs(across[1]) < abs(y):
            before, (x, y), across = (x, y), across, (x, y)
        least, middle = (xtol + rtol * abs(x)) / 2, (across[0] - x) / 2
        if y == 0 or abs(middle) < least:
            return x
        tried = _interpolated((x, y), before, across) if abs(last) > least and abs(y) < abs(before[1]) else math.inf
        last, step = (step, tried) if 2 * abs(tried) < min(abs(last), 3 * abs(middle) - least) else (middle, middle)
        before = x, y
        x += step if abs(step) > least else math.copysign(least, middle)
        y = function(x)


def _interpolated(best: Point, before: Point, across: Point) -> float:
    """How far a secant leads from the best point; where three points are known, a parabola in y."""
    (x, y), (x_before, y_before), (x_across, y_across) = best, before, across
    if x_before == x_across:
        return -y * (x - x_before) / (y - y_before)
    slope, slope_across = (y_before - y) / (x_before - x), (y_across - y) / (x_across - x)
    of_both = slope_across * slope * (y_across - y_before)
    return -y * (y_across * slope_across - y_before * slope) / of_both if of_both else math.inf


def normal_cdf(x: float) -> float:
    """The chance that a standard normal number is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def log_normal_cdf(x: float) -> float:
    """Its logarithm, to a relative 1e-13, however far x is below 0.

    Far below, the chance is exp(-x^2 / 2) / (|x| sqrt(2 pi)) times 1 - 1/x^2 + 3/x^4 - 15/x^6 + ..., whose error is less
    than the first term left out (Feller 1968, chapter VII): at -25 that is 10395 / 25^12 < 2e-13, of a logarithm of -317.
    """
    if x > 0:
        return math.log1p(-normal_cdf(-x))
    if x > _FAR:
        return math.log(normal_cdf(x))
    rest, term = 0.0, 1.0
    for odd in (1, 3, 5, 7, 9):
        term *= -odd / (x * x)
        rest += term
    return -x * x / 2 - math.log(-x) - math.log(2 * math.pi) / 2 + math.log1p(rest)


def normal_cdfs(x: Floats) -> Floats:
    """`normal_cdf` of each of these [n]."""
    return np.fromiter(map(math.erfc, (x * -math.sqrt(0.5)).tolist()), np.float64, len(x)) / 2


def log_normal_cdfs(x: Floats) -> Floats:
    """`log_normal_cdf` of each of these [n], above 0 to an absolute 1e-16."""
    with np.errstate(divide="ignore"):
        found: Floats = np.log(normal_cdfs(x))
    is_far = x <= _FAR
    found[is_far] = [log_normal_cdf(one) for one in x[is_far].tolist()]
    return found


# The complementary error function as quotients of polynomials, highest powers first: exp(x^2) erfc(x) up to 8 and beyond,
# and erf(x) / x in x^2 up to 1. Constants of Moshier (1989, Methods and Programs for Mathematical Functions), as in SciPy.
_NEAR = (
    (2.46196981473530512524e-10, 0.564189564831068821977, 7.46321056442269912687, 48.6371970985681366614,
     196.520832956077098242, 526.445194995477358631, 934.528527171957607540, 1027.55188689515710272, 557.535335369399327526),
    (1.0, 13.2281951154744992508, 86.7072140885989742329, 354.937778887819891062, 975.708501743205489753,
     1823.90916687909736289, 2246.33760818710981792, 1656.66309194161350182, 557.535340817727675546),
)  # fmt: skip
_BEYOND = (
    (0.564189583547755073984, 1.27536670759978104416, 5.01905042251180477414, 6.16021097993053585195,
     7.40974269950448939160, 2.97886665372100240670),
    (1.0, 2.26052863220117276590, 9.39603524938001434673, 12.0489539808096656605, 17.0814450747565897222,
     9.60896809063285878198, 3.36907645100081516050),
)  # fmt: skip
_SMALL = (
    (9.60497373987051638749, 90.0260197203842689217, 2232.00534594684319226, 7003.32514112805075473,
     55592.3013010394962768),
    (1.0, 33.5617141647503099647, 521.357949780152679795, 4594.32382970980127987, 22629.0000613890934246,
     49267.3942608635921086),
)  # fmt: skip


def _quotient(of: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    above, below = (np.polyval(np.array(one), x) for one in of)
    found: Floats = above / below
    return found


def _scaled_tail(x: Floats) -> Floats:
    """exp(x^2) erfc(x) of numbers from 1 on."""
    return np.where(x < 8, _quotient(_NEAR, np.minimum(x, 8)), _quotient(_BEYOND, np.maximum(x, 8)))


def sampled_cdfs(x: Floats) -> Floats:
    """`normal_cdfs` by the polynomials that SciPy has: what composes hundreds of sampled steps multiplies last digits."""
    scaled = x * math.sqrt(0.5)
    far, near = np.clip(np.abs(scaled), 1, 40), np.clip(scaled, -1, 1)  # 40: beyond the last number above 0
    with np.errstate(under="ignore"):
        tail = np.exp(-far * far) * _scaled_tail(far)
    erf = near * _quotient(_SMALL, near * near)
    half = np.where(np.abs(scaled) < 1, (1 - np.abs(erf)) * 0.5, 0.5 * tail)
    outer: Floats = np.where(scaled > 0, 1 - half, half)
    return np.where(np.abs(scaled) < math.sqrt(0.5), 0.5 + 0.5 * erf, outer)


def log_sampled_cdfs(x: Floats) -> Floats:
    """Its logarithm."""
    scaled = np.clip(-x * math.sqrt(0.5), 1, 1e30)
    far = np.log(_scaled_tail(scaled) / 2) - scaled * scaled
    found: Floats = np.where(x < -math.sqrt(2), far, np.log1p(-sampled_cdfs(np.minimum(-x, 2))))
    return found


@lru_cache(maxsize=1024)
def student_quantile(n_free: int, chance: float) -> float:
    """The number that Student's t of so many degrees of freedom exceeds with 1 - chance; `chance` from 1/2 on, below 1.

    The law is a finite sum in the angle whose tangent is t / sqrt(n_free) (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).
    """
    is_odd = n_free % 2

    def excess(angle: float) -> float:
        term = math.cos(angle) if is_odd else 1.0
        total = term if n_free > 1 else 0.0
        for k in range(2 + is_odd, n_free - 1, 2):
            term *= math.cos(angle) ** 2 * (k - 1) / k
            total += term
        within = math.sin(angle) * total
        return ((angle + within) * 2 / math.pi if is_odd else within) - (2 * chance - 1)

    return math.sqrt(n_free) * math.tan(root(excess, 0.0, math.pi / 2, xtol=1e-16))
