"""Noise that is rounded together with what it hides: an exact real sum brought to a public grid, and nothing else.

`fl(x + noise)` keeps the grid of x's own last digits, and they tell x apart (Mironov 2012). Here what is released is

    y = g * round((s + n) / g),

s the clean number, n a real number with exactly the law promised (Gaussian, Laplace), g a power of two that depends on the
noise's scale alone. Rounding comes after the noise, so it is post-processing: y costs what s + n costs, whatever grid s lies
on, and nothing is added to delta. No s + n is ever written down. Only the whole number round((s + n) / g) is computed, the
one that belongs to the real n:

* n is made of two uniform real numbers U and V by Box and Muller, sqrt(-2 ln U) cos(2 pi V) and the same with the sine (of U
  alone by inversion, for Laplace). Their first binary digits are random bits; the others are not drawn yet.
* What arithmetic gives for (s + n) / g lies within a bound of the truth, whatever the other digits may be. Where it is
  farther than that from the middle between two whole numbers, the rounding is certain. Elsewhere more digits are drawn for
  the same U and V and the number is looked at again, in double precision, then in intervals of any precision, until it is
  certain (Ziv's strategy). Both numbers of a pair are looked at with the same digits.

So tails are not cut off and nothing is lost between floating-point numbers. What is assumed: bits are fair and independent,
and NumPy's and Python's log, cos and sin are within 8 units in the last place, in single precision within 4
(`tests/privacy/test_rounded.py` measures them), square roots and arithmetic within half of one (IEEE 754). Run times are
not covered: a number that is looked at again takes longer.

s / g is a whole number and a rest in [-1/2, 1/2], both exact, and only the rest meets the noise, so that the size of s does
not enter the error. (Numbers below 2^-1000 g, or 2^-120 g in single precision, may lose digits in that division: s is then
meant as it comes out of it.) Where the sum of whole numbers needs more digits than a float has, its rounding is
post-processing again. A zero is given out as +0: -0 would tell of the sign of s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Bits = Callable[[int], bytes]  # so many random bytes, drawn anew at every call
Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Float = TypeVar("Float", bound=np.floating)

_PLACES, _PLACES32 = 24, 2  # the grid is the noise's scale over 2^24 to 2^25; over 2^2 to 2^3 in single precision
_BLOCK, _BLOCK32 = 1 << 14, 1 << 14  # numbers: arrays of 128 and 64 KB, several of which stay in the processor's cache

# The bounds on the error of (s + n) / g. Double precision, 64 digits, U in [2^-20, 1 - 2^-16]: the radius r <= 5.3 is within
# 2^-45.7 (U's rounding, 2^-54, over r = 2^-7.5: 2^-46.5; its other digits, 2^-44, over r = 5.3: 2^-46.4; log's 8 units:
# 2^-47.6), the angle within 2^-50.2, cosine and sine within 2^-50 more: together 2^-45.1 of a standard deviation, 2^-20.1 of
# a grid step, and 2^-25 for rounding products and sums below 2^28.
_MARGIN, _RANGE = 2.0**-19, (2.0**-20, 1 - 2.0**-16)
# The same for a second look after single precision, with a standard deviation below 2^3 steps, U in [2^-28, 1 - 2^-34]: the
# radius is within 2^-36.9 (U's rounding, 2^-54, over r = 2^-16.5; its other digits, 2^-36, over r = 6.2), which is all that
# counts: 2^-33.9 of a step.
_MARGIN_AGAIN, _RANGE_AGAIN = 2.0**-32, (2.0**-28, 1 - 2.0**-34)
# Laplace, 63 digits, U in [2^-20, 1]: 2^-43 for U's other digits, 2^-46 for log's 8 units: 2^-17.8 of a grid step.
_MARGIN_LAPLACE = 2.0**-17
# Single precision, 32 digits, U in [2^-15, 1 - 2^-15], radius r in [2^-7, 4.6]. At the largest r it is within 3.0e-6 (log's
# 4 units: 8.4e-7; U's other digits, 2^-17, over r: 1.7e-6; its rounding, root, product: 5e-7), the angle within 3.2e-7,
# cosine and sine within 2.4e-7 more, times r: 2.6e-6. At the least r it is within 3.9e-6 (U's rounding, 2^-25, over r). So
# 5.6e-6 of a standard deviation, and 5.5e-7 for its number of steps and the product with it: 4.9e-5 of a step of the grid,
# and 2e-6 for rounding sums below 64.
_MARGIN32, _LOWEST32, _SPAN32 = 5.2e-5, np.uint32(2**17), np.uint32(2**32 - 2**18)
_SURE32 = np.float32(0.5 - _MARGIN32)


def grid(std: float) -> float:
    """The power of two that results are multiples of, for noise of this standard deviation (or scale, for Laplace)."""
    return _grid(std, _PLACES, 900)


def grid32(std: float) -> float:
    """The same in single precision. Rounding to it adds at most 5.3e-3 of itself to the variance."""
    return _grid(std, _PLACES32, 90)


def _grid(std: float, places: int, most: int) -> float:
    if not 2.0**-most <= std <= 2.0**most:
        raise ValueError(f"noise of scale {std} has no grid: must lie between 2^-{most} and 2^{most}")
    return math.ldexp(1.0, math.frexp(std)[1] - 1 - places)


def parts(clean: NDArray[Float], step: float) -> tuple[NDArray[Float], NDArray[Float]]:
    """Numbers as whole multiples of a power of two and what is left of each, in [-1/2, 1/2] of it; both exact."""
    low = clean * clean.dtype.type(1 / step)
    whole = np.rint(low)
    low -= whole
    return whole, low


def together(whole: NDArray[Float], more: NDArray[Float], step: float) -> NDArray[Float]:
    """(whole + more) * step, in place of `whole`."""
    whole += more
    whole *= whole.dtype.type(step)
    whole += whole.dtype.type(0)  # makes +0 of -0
    return whole


def added(clean: Floats, std: float, bits: Bits) -> Floats:
    """Finite numbers of any shape, each plus Gaussian noise of its own of exactly this standard deviation, on `grid(std)`.

    Raises ValueError where the standard deviation is 0 or beyond all use.
    """
    return _blockwise(clean, std, bits, _normal)


def laplace_added(clean: Floats, scale: float, bits: Bits) -> Floats:
    """The same with Laplace noise, of density exp(-|n| / scale) / (2 scale)."""
    return _blockwise(clean, scale, bits, _laplace)


def added32(clean: NDArray[np.float32], std: float, bits: Bits) -> NDArray[np.float32]:
    """The same as `added` in single precision, on the coarser `grid32(std)`."""
    return Ahead32(clean.size, [std], 1, bits).added(clean)


def _blockwise(clean: Floats, std: float, bits: Bits, rounded: Callable[[Floats, Words, float, Bits], Floats]) -> Floats:
    step = grid(std)
    flat = np.asarray(clean, dtype=np.float64).reshape(-1)
    found = np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        pairs = np.zeros((2, -(-len(part) // 2)))  # of an odd number of values the last draw is thrown away
        pairs.reshape(-1)[: len(part)] = part
        whole, low = parts(pairs, step)
        words = np.frombuffer(bits(8 * pairs.size), dtype=np.uint64).reshape(pairs.shape)
        done = together(whole, rounded(low, words, std / step, bits), step)
        found[start : start + _BLOCK] = done.reshape(-1)[: len(part)]
    return found.reshape(np.shape(clean))


def _normal(low: Floats, words: Words, ratio: float, bits: Bits) -> Floats:
    """round(low + ratio n) for pairs of exact standard normal n, from 64 digits of each U and V, more where needed.

    Args: low, words [2, pairs], of words row 0: U, row 1: V; ratio: standard deviation over grid, at most 2^25.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # U = 0 is looked at again
        uniform, sums = _first_look(words, ratio)
        sums += low
        found: Floats = np.rint(sums)
        sums -= found
    is_certain = (np.abs(sums) <= 0.5 - _MARGIN).all(axis=0) & (uniform >= _RANGE[0]) & (uniform <= _RANGE[1])
    for pair in np.flatnonzero(~is_certain):
        found[:, pair] = _closely(_gaussian_pair, low[:, pair].tolist(), words[:, pair].tolist(), [ratio] * 2, 64, bits)
    return found


def _first_look(words: Words, ratio: float) -> tuple[Floats, Floats]:
    """U [pairs] and ratio n [2, pairs] as double precision has them."""
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
        found: Floats = np.rint(sums)
        sums -= found
    is_certain = (np.abs(sums) <= 0.5 - _MARGIN_LAPLACE) & (uniform >= _RANGE[0])
    for row, place in np.argwhere(~is_certain):
        known = [int(words[row, place]) >> 1]
        (found[row, place],) = _closely(_exponential, [low[row, place]], known, [signed[row, place]], 63, bits)
    return found


class Ahead32:
    """Gaussian noise for `count` additions to arrays of `size` numbers in single precision, as `added32`; drawn ahead.

    For training, whose steps are many and may be small. With several standard deviations the array is as many rows of equal
    length, each with its own. No number of noise serves two additions, no pair spans two, and working memory is used again.
    Keep it where it was made: a copy in another process would add the same noise.
    """

    def __init__(self, size: int, stds: Sequence[float], count: int, bits: Bits) -> None:
        n_blocks = max(1, -(-size // _BLOCK32))
        width = max(1, -(-size // n_blocks))
        self._left, self._n_drawn, self._bits = count * n_blocks, 0, bits
        self._half = half = -(-width // 2)
        self._blocks = [_Block.of(stds, size, slice(at, at + width), 2 * half) for at in range(0, max(1, size), width)]
        most = max(1, min(count, _BLOCK32 // width)) if n_blocks == 1 else 1  # blocks have scales of their own
        self._drawn = np.empty((most, 2 * half), dtype=np.float32)
        self._radius, self._angle = np.empty((2, most, half), dtype=np.float32)
        self._low, self._more = np.empty((2, width), dtype=np.float32)

    def added(self, clean: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next addition. Args: clean, of any shape with `size` numbers."""
        flat = np.ascontiguousarray(clean, dtype=np.float32).reshape(-1)
        found = np.empty_like(flat)
        for block in self._blocks:
            self._next(flat[block.place], block, found[block.place])
        return found.reshape(np.shape(clean))

    def _next(self, clean: NDArray[np.float32], block: _Block, found: NDArray[np.float32]) -> None:
        """The next block, written into `found`."""
        if self._n_drawn == 0:
            self._draw(block)
        self._n_drawn -= 1
        n = len(clean)
        low, more = self._low[:n], self._more[:n]
        np.multiply(clean, block.per_step, out=low)
        np.rint(low, out=found)
        low -= found
        low += self._drawn[self._n_drawn, :n]
        np.rint(low, out=more)
        low -= more
        np.abs(low, out=low)
        is_sure = low <= _SURE32  # nor where there is no number
        if not is_sure.all():
            self._look_again(np.flatnonzero(~is_sure).tolist(), clean, block, more)
        found += more
        found *= block.steps
        found += np.float32(0)  # makes +0 of -0

    def _draw(self, block: _Block) -> None:
        """Normal numbers for as many additions as stay in the processor's cache; none where U is near its ends."""
        self._n_drawn = n = min(self._left, len(self._drawn))
        if n == 0:
            raise ValueError("more additions than were asked for")
        self._left -= n
        self._words = np.frombuffer(self._bits(8 * n * self._half), dtype=np.uint32).reshape(2, n, self._half)
        radius, angle, drawn = self._radius[:n], self._angle[:n], self._drawn[:n]
        radius[...] = self._words[0]
        radius += np.float32(2.0**-10)  # keeps the logarithm finite, and changes no number that is used
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= np.float32(-2)
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
        drawn *= block.ratios

    def _look_again(self, unsure: list[int], clean: NDArray[np.float32], block: _Block, more: NDArray[np.float32]) -> None:
        """Writes the roundings of these pairs into `more`, with 32 more digits of each U and V, in double precision."""
        for pair in {place % self._half for place in unsure}:
            known, later = self._words[:, self._n_drawn, pair].tolist(), int.from_bytes(self._bits(8), "little")
            digits = [known[0] << 32 | later & (2**32 - 1), known[1] << 32 | later >> 32]
            places = (pair, pair + self._half) if pair + self._half < len(clean) else (pair,)
            scaled = [float(clean[place] * block.per_step[place]) for place in places]
            ratios = [block.exact_ratios.item(place) for place in places]
            found = _pair_again([value - round(value) for value in scaled], digits, ratios, self._bits)
            for place, whole in zip(places, found, strict=True):
                more[place] = whole


def _pair_again(low: list[float], digits: list[int], ratios: list[float], bits: Bits) -> list[int]:
    """round(low + ratio n) for one or both of a pair n, from 64 digits of U and V, more where needed; ratios up to 2^3."""
    uniform, angle = digits[0] * 2.0**-64, (digits[1] - (digits[1] >> 63 << 64)) * (2 * math.pi * 2.0**-64)
    if _RANGE_AGAIN[0] <= uniform <= _RANGE_AGAIN[1]:
        radius = math.sqrt(-2 * math.log(uniform))
        sides = (radius * math.cos(angle), radius * math.sin(angle))
        sums = [rest + ratio * side for rest, ratio, side in zip(low, ratios, sides, strict=False)]
        found = [round(value) for value in sums]
        if all(abs(value - whole) <= 0.5 - _MARGIN_AGAIN for value, whole in zip(sums, found, strict=True)):
            return found
    return _closely(_gaussian_pair, low, digits, ratios, 64, bits)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Of the numbers at a place: `steps` of the grid and 1 over these, both exact; standard deviations over steps."""

    place: slice
    steps: NDArray[np.float32]
    per_step: NDArray[np.float32]
    ratios: NDArray[np.float32]
    exact_ratios: Floats

    @classmethod
    def of(cls, stds: Sequence[float], size: int, place: slice, n_drawn: int) -> _Block:
        """Of an array of `size` numbers in as many rows as standard deviations; `ratios` for all `n_drawn` of its noise."""
        row = np.minimum(np.arange(place.start, place.start + n_drawn) // max(1, size // len(stds)), len(stds) - 1)
        steps = np.array([grid32(std) for std in stds])
        ratios, here = (np.array(stds) / steps)[row], row[: min(place.stop, size) - place.start]
        single = np.float32
        return cls(place, steps[here].astype(single), (1 / steps)[here].astype(single), ratios.astype(single), ratios)


Interval = tuple[object, object]  # lower and upper end, as mpmath's library has numbers
Transform = Callable[[list[Interval], int], list[Interval]]


def _closely(
    transform: Transform, low: list[float], digits: list[int], ratios: list[float], n_digits: int, bits: Bits
) -> list[int]:
    """round(low + ratio n), with as many digits as it takes: 64 more of each uniform number until intervals agree.

    Args: low, ratios: for each of the first numbers n that `transform` makes; digits: the first `n_digits` of each uniform
    number.
    """
    from mpmath import libmp  # one number in 100,000 and more needs it: a run starts sooner without

    while True:
        digits = [known << 64 | int.from_bytes(bits(8), "little") for known in digits]
        n_digits += 64
        if digits[0] == 0:  # the logarithm has no bound yet
            continue
        precision = n_digits + 64
        uniform = [(libmp.from_man_exp(known, -n_digits), libmp.from_man_exp(known + 1, -n_digits)) for known in digits]
        found = []
        for rest, ratio, drawn in zip(low, ratios, transform(uniform, precision), strict=False):
            start, factor = libmp.from_float(rest), libmp.from_float(float(ratio))
            total = libmp.mpi_add((start, start), libmp.mpi_mul((factor, factor), drawn, precision), precision)
            found.append([libmp.to_int(end, libmp.round_nearest) for end in total])
        if all(first == last for first, last in found):  # rounding is monotone: all between the ends agree with them
            return [first for first, _ in found]


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
