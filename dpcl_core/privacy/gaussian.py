"""The Gaussian mechanism in closed form: sigma for (epsilon, delta) and back (Balle and Wang 2018, Theorem 8)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcl_core.errors import BadInput
from dpcl_core.privacy.budgets import check_delta, check_positive
from dpcl_core.privacy.numerics import log_normal_cdf, normal_cdf, root, rounded_up
from dpcl_core.spec import Adjacency

# Noise rounded together with the value that it hides: the exact real sum, rounded to a public grid.
#
# `fl(x + noise)` keeps the grid of x's own last digits, which reveal x (Mironov 2012). The release here is
#
#     y = g * round((s + n) / g),
#
# s the clean number, n a real number with exactly the stated distribution (Gaussian, Laplace), g a power of two that depends
# only on the noise's scale. Rounding comes after the noise, so it is post-processing: y costs what s + n costs, whatever the
# grid of s, and nothing is added to delta. s + n is never stored. Only the integer round((s + n) / g) is computed:
#
# * n is made of two uniform real numbers U and V by Box and Muller, sqrt(-2 ln U) cos(2 pi V) and the same with the sine (of
#   U
#   alone by inversion, for Laplace). Their first binary digits are random bits; the others are not drawn yet.
# * The computed (s + n) / g is within an error bound of the true one, whatever the other digits are. Where it is farther
#   than
#   that from the middle between two integers, the rounding is certain. Elsewhere more digits are drawn for the same U and V,
#   and the number is computed again, in double precision, then in interval arithmetic of growing precision, until it is
#   certain (Ziv's strategy). Both numbers of a pair are computed from the same digits.
#
# So tails are not cut off and nothing is lost between floating-point numbers. Assumptions: bits are fair and independent,
# and NumPy's and Python's log, cos and sin are within 8 units in the last place, in single precision within 4
# (`tests/privacy/test_noise.py` measures them), square roots and arithmetic within half of one (IEEE 754). Run times are
# not covered: a number that is computed again takes longer.
#
# s / g is split into an integer and a remainder in [-1/2, 1/2], both exact, and the noise is added to the remainder only, so
# that the size of s does not enter the error. (Numbers below 2^-1000 g, or 2^-120 g in single precision, may lose digits in
# that division: s then means the result of the division.) Where the sum of integers needs more digits than a float has, its
# rounding is post-processing again. Zeros are released as +0: -0 would reveal the sign of s.


Bits = Callable[[int], bytes]  # gives this many fresh random bytes
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Float = TypeVar("Float", bound=np.floating)

_PLACES, _PLACES32 = 24, 2  # the grid is the noise's scale over 2^24 to 2^25; over 2^2 to 2^3 in single precision
_BLOCK, _BLOCK32 = 1 << 14, 1 << 15  # numbers: arrays of 128 KB, several of which stay in the processor's cache

# The bounds on the error of (s + n) / g. Double precision, 64 digits, U in [2^-20, 1 - 2^-16]: the radius r <= 5.3 is within
# 2^-45.7 (U's rounding, 2^-54, over r = 2^-7.5: 2^-46.5; its other digits, 2^-44, over r = 5.3: 2^-46.4; log's 8 units:
# 2^-47.6), the angle within 2^-50.2, cosine and sine within 2^-50 more: together 2^-45.1 of a standard deviation, 2^-20.1 of
# a grid step, and 2^-25 for rounding products and sums below 2^28.
_MARGIN, _RANGE = 2.0**-19, (2.0**-20, 1 - 2.0**-16)
# The same for the second computation after single precision, with a standard deviation below 2^3 steps, U in [2^-28,
# 1 - 2^-34]: the radius is within 2^-36.9 (U's rounding, 2^-54, over r = 2^-16.5; its other digits, 2^-36, over r = 6.2),
# which dominates: 2^-33.9 of a step.
_MARGIN_AGAIN, _RANGE_AGAIN = 2.0**-32, (2.0**-28, 1 - 2.0**-34)
# Laplace, 63 digits, U in [2^-20, 1]: 2^-43 for U's other digits, 2^-46 for log's 8 units: 2^-17.8 of a grid step.
_MARGIN_LAPLACE = 2.0**-17
# Single precision, 32 digits, U in [2^-15, 1 - 2^-15], radius r in [2^-7, 4.6]. At the largest r it is within 3.0e-6 (log's
# 4 units: 8.4e-7; U's other digits, 2^-17, over r: 1.7e-6; its rounding, root, product: 5e-7), the angle within 3.2e-7,
# cosine and sine within 2.4e-7 more, times r: 2.6e-6. At the least r it is within 3.9e-6 (U's rounding, 2^-25, over r). So
# 5.6e-6 of a standard deviation, and 5.5e-7 for its number of steps and the product with it (half that for its square and
# the product before the root): 4.9e-5 of a step of the grid, and 2e-6 for rounding sums below 64.
_MARGIN32, _LOWEST32, _SPAN32 = 5.2e-5, np.uint32(2**17), np.uint32(2**32 - 2**18)
_SURE32 = np.float32(0.5 - _MARGIN32)


def grid(std: float) -> float:
    """Grid of the results, a power of two, for noise of this standard deviation (or scale, for Laplace)."""
    return _grid(std, _PLACES, 900)


def grid32(std: float) -> float:
    """Grid of results in single precision; rounding to it raises the variance by at most 0.53 %."""
    return _grid(std, _PLACES32, 90)


def _grid(std: float, places: int, most: int) -> float:
    if not 2.0**-most <= std <= 2.0**most:
        raise ValueError(f"noise of scale {std} has no grid: must lie between 2^-{most} and 2^{most}")
    return math.ldexp(1.0, math.frexp(std)[1] - 1 - places)


def parts(clean: NDArray[Float], step: float) -> tuple[NDArray[Float], NDArray[Float]]:
    """Numbers in units of `step` (a power of two), split into integers and remainders in [-1/2, 1/2]; both exact."""
    low = clean * clean.dtype.type(1 / step)
    integers = np.rint(low)
    low -= integers
    return integers, low


def combined(integers: NDArray[Float], more: NDArray[Float], step: float) -> NDArray[Float]:
    """(integers + more) * step, in place of `integers`."""
    integers += more
    integers *= integers.dtype.type(step)
    integers += integers.dtype.type(0)  # makes +0 of -0
    return integers


def added(clean: Floats, std: float, bits: Bits) -> Floats:
    """Finite numbers of any shape, each plus independent Gaussian noise of exactly this standard deviation, on `grid(std)`.

    Raises ValueError where the standard deviation is 0 or outside 2^-900 to 2^900.
    """
    return _blockwise(clean, std, bits, _normal)


def laplace_added(clean: Floats, scale: float, bits: Bits) -> Floats:
    """As `added`, with Laplace noise of density exp(-|n| / scale) / (2 scale)."""
    return _blockwise(clean, scale, bits, _laplace)


def added32(clean: NDArray[np.floating], std: float, bits: Bits) -> NDArray[np.float32]:
    """As `added`, in single precision, on the coarser `grid32(std)`.

    Of numbers in double precision, what lies on the grid is added exactly, and only the rest is rounded to single precision
    before it has its noise: to 2^-25 of a step, however large the number is.
    """
    add, step = Ahead32(clean.size, [std], 1, bits).added, grid32(std)
    if clean.dtype == np.float32:
        return add(clean.astype(np.float32, copy=False))
    on_grid = np.rint(clean / step) * step
    noisy: NDArray[np.float32] = (on_grid + add((clean - on_grid).astype(np.float32))).astype(np.float32)
    return noisy


def _blockwise(clean: Floats, std: float, bits: Bits, rounded: Callable[[Floats, Words, float, Bits], Floats]) -> Floats:
    step = grid(std)
    flat = np.asarray(clean, dtype=np.float64).reshape(-1)
    released = np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        pairs = np.zeros((2, -(-len(part) // 2)))  # for an odd number of values the last draw is discarded
        pairs.reshape(-1)[: len(part)] = part
        integers, low = parts(pairs, step)
        words = np.frombuffer(bits(8 * pairs.size), dtype=np.uint64).reshape(pairs.shape)
        done = combined(integers, rounded(low, words, std / step, bits), step)
        released[start : start + _BLOCK] = done.reshape(-1)[: len(part)]
    return released.reshape(np.shape(clean))


def _normal(low: Floats, words: Words, ratio: float, bits: Bits) -> Floats:
    """round(low + ratio n) for pairs of exact standard normal n, from 64 bits of each U and V, more where needed.

    Args: low, words [2, pairs], of words row 0: U, row 1: V; ratio: standard deviation over grid, at most 2^25.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # U = 0 is computed again
        uniform, sums = _in_double(words, ratio)
        sums += low
        integers: Floats = np.rint(sums)
        sums -= integers
    is_certain = (np.abs(sums) <= 0.5 - _MARGIN).all(axis=0) & (uniform >= _RANGE[0]) & (uniform <= _RANGE[1])
    for pair in np.flatnonzero(~is_certain):
        rests, known = low[:, pair].tolist(), words[:, pair].tolist()
        integers[:, pair] = _by_intervals(_gaussian_pair, rests, known, [ratio] * 2, 64, bits)
    return integers


def _in_double(words: Words, ratio: float) -> tuple[Floats, Floats]:
    """U [pairs] and ratio n [2, pairs] in double precision."""
    uniform = words[0] * 2.0**-64
    angle = words[1].view(np.int64) * (2 * math.pi * 2.0**-64)  # in [-pi, pi], where it has more digits
    radius = np.sqrt(np.log(uniform) * -2)
    return uniform, np.stack([np.cos(angle), np.sin(angle)]) * radius * ratio


def _laplace(low: Floats, words: Words, ratio: float, bits: Bits) -> Floats:
    """round(low + ratio n) for exact Laplace n of scale 1: the first bit is its sign, 63 more are digits of U = e^-|n|."""
    uniform = (words >> np.uint64(1)) * 2.0**-63
    signed = np.where(words & np.uint64(1), -ratio, ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = low - signed * np.log(uniform)
        integers: Floats = np.rint(sums)
        sums -= integers
    is_certain = (np.abs(sums) <= 0.5 - _MARGIN_LAPLACE) & (uniform >= _RANGE[0])
    for row, place in np.argwhere(~is_certain):
        known = [int(words[row, place]) >> 1]
        (integers[row, place],) = _by_intervals(_exponential, [low[row, place]], known, [signed[row, place]], 63, bits)
    return integers


class Ahead32:
    """Gaussian noise for `count` additions to arrays of `size` numbers in single precision, as `added32`; drawn in advance.

    For training, with many and often small steps. With several standard deviations the array consists of as many rows of
    equal length, one for each. Every noise number is used once, no pair spans two additions, and working memory is reused.
    Do not copy it to another process: the copy would add the same noise.
    """

    def __init__(self, size: int, stds: Sequence[float], count: int, bits: Bits) -> None:
        row = size if 2 * size <= _BLOCK32 else size // len(stds)  # no block of a large array spans two rows
        width = max(1, -(-row // max(1, -(-row // _BLOCK32))))
        rows = [range(start, start + row, width) for start in range(0, size, max(1, row))]
        ends = [(at, min(at + width, starts.stop)) for starts in rows for at in starts]
        self._half = half = -(-width // 2)
        self._blocks = [_Block.of(stds, size, slice(*places), 2 * half) for places in ends]
        self._left, self._n_drawn, self._bits = count * len(ends), 0, bits
        most = max(1, min(count, _BLOCK32 // width)) if len(ends) == 1 else 1  # blocks have scales of their own
        self._drawn = np.empty((most, 2 * half), dtype=np.float32)
        self._radius, self._angle = np.empty((2, most, half), dtype=np.float32)
        self._low, self._high, self._more = np.empty((3, width), dtype=np.float32)
        self._is_sure = np.empty(width, dtype=np.bool_)

    def added(self, clean: NDArray[np.float32], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """The next addition. Args: clean, of any shape with `size` numbers; out: where to write it, may be `clean`."""
        flat = np.ascontiguousarray(clean, dtype=np.float32)
        released = np.empty_like(flat) if out is None else out
        for block in self._blocks:
            self._next(flat.reshape(-1)[block.place], block, released.reshape(-1)[block.place])
        return released.reshape(np.shape(clean))

    def _next(self, clean: NDArray[np.float32], block: _Block, released: NDArray[np.float32]) -> None:
        """Adds noise to the next block and writes the result into `released`."""
        if self._n_drawn == 0:
            self._draw(block)
        self._n_drawn -= 1
        n = len(clean)
        low, high, more = self._low[:n], self._high[:n], self._more[:n]
        np.multiply(clean, block.per_step, out=low)
        np.rint(low, out=high)
        low -= high
        low += self._drawn[self._n_drawn, :n]
        np.rint(low, out=more)
        low -= more
        np.abs(low, out=low)
        is_sure = np.less_equal(low, _SURE32, out=self._is_sure[:n])  # NaN is not
        if not is_sure.all():
            self._recompute(np.flatnonzero(~is_sure).tolist(), clean, block, more)
        np.add(high, more, out=released)
        released *= block.steps
        released += np.float32(0)  # makes +0 of -0

    def _draw(self, block: _Block) -> None:
        """Draws normal numbers for as many additions as stay in the processor's cache; NaN where U is near its ends."""
        self._n_drawn = n = min(self._left, len(self._drawn))
        if n == 0:
            raise ValueError("more additions than `count`")
        self._left -= n
        self._words = np.frombuffer(self._bits(8 * n * self._half), dtype=np.uint32).reshape(2, n, self._half)
        radius, angle, drawn = self._radius[:n], self._angle[:n], self._drawn[:n]
        radius[...] = self._words[0]
        radius += np.float32(2.0**-10)  # keeps the logarithm finite, and changes no number that is used
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= block.squared  # before the root: one pass less, and half its rounding
        np.sqrt(radius, out=radius)
        above = self._words[0] - _LOWEST32
        if above.max() > _SPAN32:
            radius[above > _SPAN32] = np.nan
        angle[...] = self._words[1].view(np.int32)  # in [-pi, pi], where it has more digits
        angle *= np.float32(2 * math.pi * 2.0**-32)
        cosines, sines = drawn[:, : self._half], drawn[:, self._half :]
        np.cos(angle, out=cosines)
        np.sin(angle, out=sines)
        cosines *= radius
        sines *= radius
        if len(block.ratios) > 1:
            drawn *= block.ratios

    def _recompute(self, unsure: list[int], clean: NDArray[np.float32], block: _Block, more: NDArray[np.float32]) -> None:
        """Writes the roundings of these pairs into `more`, with 32 more bits of each U and V, in double precision."""
        half, last = self._half, len(block.per_step) - 1  # 0: one scale for all
        pairs, words = {place % half for place in unsure}, self._words[:, self._n_drawn]
        later = np.frombuffer(self._bits(8 * len(pairs)), dtype=np.uint32).tolist()
        for pair in pairs:
            digits = [words.item(0, pair) << 32 | later.pop(), words.item(1, pair) << 32 | later.pop()]
            low, ratios = [], []
            for place in range(pair, len(clean), half):  # the last pair may lack its second number
                value = clean.item(place) * block.per_step.item(min(place, last))
                low.append(value - round(value))
                ratios.append(block.exact_ratios.item(min(place, last)))
            more[pair::half] = _pair_in_double(low, digits, ratios, self._bits)


def _pair_in_double(low: list[float], digits: list[int], ratios: list[float], bits: Bits) -> list[int]:
    """round(low + ratio n) for one or both of a pair n, from 64 bits of U and V, more where needed; ratios up to 2^3."""
    uniform, angle = digits[0] * 2.0**-64, (digits[1] - (digits[1] >> 63 << 64)) * (2 * math.pi * 2.0**-64)
    if _RANGE_AGAIN[0] <= uniform <= _RANGE_AGAIN[1]:
        radius, integers = math.sqrt(-2 * math.log(uniform)), []
        for rest, ratio, side in zip(low, ratios, (math.cos, math.sin), strict=False):
            value = rest + ratio * (radius * side(angle))
            integers.append(round(value))
            if abs(value - integers[-1]) > 0.5 - _MARGIN_AGAIN:
                break
        else:
            return integers
    return _by_intervals(_gaussian_pair, low, digits, ratios, 64, bits)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Scales of the numbers at `place`: grid `steps` and their inverses, both exact; standard deviations over steps.

    One number each, in an array of one, for numbers of one row. `squared`: what turns a logarithm into a squared radius, -2,
    of numbers of one row times their squared ratio.
    """

    place: slice
    steps: NDArray[np.float32]
    per_step: NDArray[np.float32]
    ratios: NDArray[np.float32]
    exact_ratios: Floats
    squared: np.float32

    @classmethod
    def of(cls, stds: Sequence[float], size: int, place: slice, n_drawn: int) -> _Block:
        """The block at `place` of `size` numbers in `len(stds)` rows; `ratios` for all `n_drawn` noise numbers."""
        row = np.minimum(np.arange(place.start, place.start + n_drawn) // max(1, size // len(stds)), len(stds) - 1)
        steps = np.array([grid32(std) for std in stds])
        here = row[: place.stop - place.start]
        if here[0] == here[-1]:
            here = row = here[:1]
        ratios, single = (np.array(stds) / steps)[row], np.float32
        squared = single(-2 * ratios[0] ** 2 if len(ratios) == 1 else -2)
        own, per_step = steps[here].astype(single), (1 / steps[here]).astype(single)
        return cls(place, own, per_step, ratios.astype(single), ratios, squared)


Interval = tuple[object, object]  # lower and upper end, as mpmath numbers
Transform = Callable[[list[Interval], int], list[Interval]]


def _by_intervals(
    transform: Transform, low: list[float], digits: list[int], ratios: list[float], n_digits: int, bits: Bits
) -> list[int]:
    """round(low + ratio n) with as many bits as needed: 64 more of each uniform number until interval ends agree.

    Args: low, ratios: for each of the first numbers n that `transform` makes; digits: the first `n_digits` bits of each
    uniform number.
    """
    from mpmath import libmp  # fewer than one number in 100,000 needs it: a run starts sooner without

    while True:
        digits = [known << 64 | int.from_bytes(bits(8), "little") for known in digits]
        n_digits += 64
        if digits[0] == 0:  # the logarithm has no bound yet
            continue
        precision = n_digits + 64
        uniform = [(libmp.from_man_exp(known, -n_digits), libmp.from_man_exp(known + 1, -n_digits)) for known in digits]
        ends = []
        for rest, ratio, drawn in zip(low, ratios, transform(uniform, precision), strict=False):
            start, factor = libmp.from_float(rest), libmp.from_float(float(ratio))
            total = libmp.mpi_add((start, start), libmp.mpi_mul((factor, factor), drawn, precision), precision)
            ends.append([libmp.to_int(end, libmp.round_nearest) for end in total])
        if all(first == last for first, last in ends):  # rounding is monotone: all between the ends agree with them
            return [first for first, _ in ends]


def _exponential(uniform: list[Interval], precision: int) -> list[Interval]:
    """-ln U."""
    from mpmath import libmp

    return [libmp.mpi_neg(libmp.mpi_log(uniform[0], precision))]


def _gaussian_pair(uniform: list[Interval], precision: int) -> list[Interval]:
    """sqrt(-2 ln U) times cos(2 pi V) and sin(2 pi V)."""
    from mpmath import libmp

    (exponential,), two = _exponential(uniform, precision), (libmp.ftwo, libmp.ftwo)
    radius = libmp.mpi_sqrt(libmp.mpi_mul(two, exponential, precision), precision)
    pi = (libmp.mpf_pi(precision, libmp.round_floor), libmp.mpf_pi(precision, libmp.round_ceiling))
    angle = libmp.mpi_mul(libmp.mpi_mul(two, pi, precision), uniform[1], precision)
    return [libmp.mpi_mul(radius, side, precision) for side in libmp.mpi_cos_sin(angle, precision)]


# L2 sensitivity of a sum of vectors of length at most 1: one vector, and under "replace" a vector against its opposite.
SENSITIVITY: dict[Adjacency, float] = {"add-remove": 1.0, "replace": 2.0}
# Calibrated noise is rounded up by this factor, so that an accountant that rounds its epsilon up still meets the target.
_ROUND_UP = 1 + 1e-6


def delta(epsilon: float, sigma: float, sensitivity: float = 1.0) -> float:
    """Smallest delta for which Gaussian noise of standard deviation `sigma` is (epsilon, delta)-DP."""
    check_positive(sigma=sigma, sensitivity=sensitivity)
    if not epsilon >= 0:
        raise BadInput("epsilon", epsilon, "must be a number of at least 0")
    return 0.0 if math.isinf(epsilon) or math.isinf(sigma) else max(0.0, _delta_of(epsilon, sigma / sensitivity))


def sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest standard deviation of Gaussian noise that is (epsilon, delta)-DP, rounded up; 0 for epsilon = inf.

    `sensitivity`: largest L2 change by one person under the adjacency in use.
    """
    check_positive(epsilon=epsilon, sensitivity=sensitivity)
    check_delta(delta)
    if math.isinf(epsilon):
        return 0.0
    ratio = math.exp(_root(lambda u: _delta_of(epsilon, math.exp(u)) - delta, -14.0, 21.0))
    return rounded_up(ratio * sensitivity * _ROUND_UP)


def epsilon(sigma: float, delta: float, sensitivity: float = 1.0) -> float:
    """Smallest epsilon for which noise of this standard deviation is (epsilon, delta)-DP, rounded up; inf without noise."""
    check_delta(delta)
    if sigma == 0:
        return math.inf
    check_positive(sigma=sigma, sensitivity=sensitivity)
    ratio = sigma / sensitivity
    if _delta_of(0.0, ratio) <= delta:
        return 0.0
    mu = 1 / ratio
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1  # the tail bound of the privacy loss
    return rounded_up(_root(lambda e: _delta_of(e, ratio) - delta, 0.0, upper))


def _delta_of(epsilon: float, ratio: float) -> float:
    mu = 1 / ratio
    # The second term stays in logarithms: e^epsilon alone overflows long before the product is large.
    return normal_cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + log_normal_cdf(-mu / 2 - epsilon / mu))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return root(function, low, high, xtol=1e-13, rtol=8.9e-16)
