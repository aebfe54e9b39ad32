"""Sums of tiles do not depend on how they are grouped."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from daskkcl.rules.sums import ExactSum
from daskkcl.schedules.tasks import Sums

# Terms whose exponents are at most so far apart add up without any error at all: two float64 hold 107 bits.
magnitudes = st.one_of(st.just(0.0), st.floats(1e-5, 1e5))
terms = st.lists(st.builds(math.copysign, magnitudes, st.sampled_from([1.0, -1.0])), min_size=1, max_size=60)
wide_terms = st.lists(st.floats(-1e100, 1e100, allow_subnormal=False), min_size=1, max_size=40)


def one_by_one(values):
    return reduce(lambda total, value: total + value, values, ExactSum.zeros(()))


def grouped(values, rng):
    """Add neighbours in a random tree, each part a sum of its own."""
    parts = [ExactSum.zeros(()) + value for value in values]
    while len(parts) > 1:
        i = int(rng.integers(len(parts) - 1))
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0]


@settings(deadline=None)
@given(values=terms, seed=st.integers(0, 2**32))
def test_any_grouping_gives_the_same_float(values, seed):
    rng = np.random.default_rng(seed)
    expected = math.fsum(values)
    assert float(one_by_one(values).value) == expected
    for _ in range(3):
        assert float(grouped(values, rng).value) == expected
    assert float(one_by_one(rng.permutation(values)).value) == expected  # nor does the order matter


@settings(deadline=None)
@given(values=terms, cuts=st.lists(st.integers(0, 60), max_size=8))
def test_blocks_of_any_size_give_the_same_float(values, cuts):
    """As passes add: terms within a block one by one, then the blocks."""
    edges = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    blocks = [one_by_one(values[a:b]) for a, b in itertools.pairwise(edges)]
    assert float(one_by_one(blocks).value) == math.fsum(values)


@settings(deadline=None)
@given(values=wide_terms, seed=st.integers(0, 2**32))
def test_the_error_is_that_of_twice_the_precision(values, seed):
    """Whatever the terms: nearly twice the digits of the largest partial sum, in any grouping."""
    scale = math.fsum(map(abs, values))
    for total in (one_by_one(values), grouped(values, np.random.default_rng(seed))):
        exact = math.fsum([*values, -float(total.high), -float(total.low)])
        assert abs(exact) <= len(values) ** 2 * 2.0**-104 * scale
        # the value is the whole rounded: what is left is at most half a unit in its last place
        assert abs(float(total.low)) <= 0.5 * np.spacing(abs(float(total.high)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_arrays_like_those_of_a_pass(seed, dtype):
    """Tile sums as they come: many roundings, any tree, the same bits."""
    rng = np.random.default_rng(seed)
    tiles = (rng.normal(size=(200, 3, 5)) * np.exp(rng.normal(scale=3, size=(200, 1, 1)))).astype(dtype)
    zeros = ExactSum.zeros((3, 5))
    reference = reduce(lambda a, b: a + b, tiles, zeros).value
    assert_array_equal(reference, [[math.fsum(tiles[:, i, j].astype(float)) for j in range(5)] for i in range(3)])
    for size in (1, 3, 8, 64):
        blocks = [reduce(lambda a, b: a + b, tiles[i : i + size], zeros) for i in range(0, 200, size)]
        while len(blocks) > 1:
            blocks = [reduce(lambda a, b: a + b, blocks[i : i + 8]) for i in range(0, len(blocks), 8)]
        assert_array_equal(blocks[0].value, reference)


def test_checkpointed_sums_are_the_same():
    total = ExactSum.zeros((2,)) + np.array([1e16, 0.1]) + np.array([1.0, 0.2])
    back = ExactSum.from_array(total.to_array())
    assert_array_equal(back.high, total.high)
    assert_array_equal(back.low, total.low)
    assert_array_equal((back + np.array([-1e16, 0.3])).value, [1.0, math.fsum([0.1, 0.2, 0.3])])


def test_farthest_rows_do_not_depend_on_grouping():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 40, 300).astype(float)  # many ties: the lower row wins

    def part(a, b):
        far = np.c_[values[a:b], np.arange(a, b)]
        zero = ExactSum.zeros(())
        one = Sums(zero, zero, zero, b - a)
        return Sums.combine([one, Sums(zero, zero, zero, 0, far)])

    whole = part(0, 300)
    for size in (1, 7, 50):
        parts = Sums.combine([part(a, min(300, a + size)) for a in range(0, 300, size)])
        assert_array_equal(parts.far, whole.far)
        assert parts.n_rows == 300
