"""Keyed randomness: the random order is a permutation, addressable at any place, and fair."""

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import stats

from daskkcl.errors import InvalidInputError
from daskkcl.random import Key, as_key

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 255, 256, 257, 1000, 1023, 1024, 1025, 4097, 70_000]
ALPHA = 1e-6  # chance that a fair order fails a test: the keys are fixed, so a pass stays a pass


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_rows_are_a_permutation_and_positions_its_inverse(n, seed):
    key = Key(seed).child("order", 0)
    rows = key.rows(n, 0, n)
    assert rows.dtype == np.int64
    assert_array_equal(np.sort(rows), np.arange(n))
    assert_array_equal(key.positions(n, rows), np.arange(n))
    assert_array_equal(rows[key.positions(n, np.arange(n))], np.arange(n))


def test_rows_are_a_permutation_for_every_small_n():
    for n in range(1, 300):
        rows = Key(n).rows(n, 0, n)
        assert_array_equal(np.sort(rows), np.arange(n))
        assert_array_equal(Key(n).positions(n, rows), np.arange(n))


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 10**14), seed=st.integers(0, 2**63 - 1), data=st.data())
def test_any_place_of_any_order(n, seed, data):
    """Places are found alone and together, also in orders far too long to write down."""
    key = Key(seed).child("x")
    start = data.draw(st.integers(0, n - 1))
    stop = min(n, start + data.draw(st.integers(0, 50)))
    rows = key.rows(n, start, stop)
    assert len(rows) == stop - start
    assert len(set(rows.tolist())) == len(rows)
    assert ((rows >= 0) & (rows < n)).all()
    assert_array_equal(key.positions(n, rows), np.arange(start, stop))
    for place in range(start, stop, 7):
        assert_array_equal(key.rows(n, place, place + 1), rows[place - start : place - start + 1])


@pytest.mark.parametrize("n", [10, 1000, 4096])
def test_a_sample_is_the_beginning_of_the_order(n):
    key = Key(3).child("order", 0)
    whole = key.rows(n, 0, n)
    for stop in (0, 1, n // 3, n - 1, n):
        assert_array_equal(key.rows(n, 0, stop), whole[:stop])
    parts = [key.rows(n, a, b) for a, b in itertools.pairwise([0, n // 7, n // 2, n])]
    assert_array_equal(np.concatenate(parts), whole)


def test_keys_are_independent_of_everything_but_seed_and_path():
    key = Key(7)
    assert key.child("a", 1) == key.child("a").child(1) == Key(7, ("a", "1"))
    assert_array_equal(key.child("a", 1).rows(50, 0, 50), key.child("a").child("1").rows(50, 0, 50))
    others = [Key(7), Key(8), Key(7).child("a"), Key(7).child("b"), Key(7).child("a", "b"), Key(7).child("ab"), Key(71)]
    orders = {tuple(key.rows(50, 0, 50).tolist()) for key in others}
    draws = {tuple(key.uniform(np.arange(4)).tolist()) for key in others}
    streams = {tuple(key.generator().random(4).tolist()) for key in others}
    assert len(orders) == len(draws) == len(streams) == len(others)
    copied = pickle.loads(pickle.dumps(key.child("a")))
    assert copied == key.child("a")
    assert_array_equal(copied.rows(50, 0, 50), key.child("a").rows(50, 0, 50))


def test_another_process_draws_the_same():
    """Nothing depends on Python's own hashes, which differ from process to process."""
    code = "from daskkcl.random import Key; k = Key(5).child('a', 2); print(k.rows(97, 0, 97).tolist(), k.uniform([3]))"
    key = Key(5).child("a", 2)
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"}
    )
    assert out.stdout.strip() == f"{key.rows(97, 0, 97).tolist()} {key.uniform([3])}"


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 10, 17, 64])
def test_every_row_is_as_likely_at_every_place(n):
    trials = 3000
    orders = np.stack([Key(seed).child("order", 0).rows(n, 0, n) for seed in range(trials)])
    for place in {0, 1, n // 2, n - 1}:
        counts = np.bincount(orders[:, place], minlength=n)
        assert stats.chisquare(counts).pvalue > ALPHA, (place, counts)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_every_pair_of_rows_is_as_likely(n):
    trials = 6000
    orders = np.stack([Key(seed).child("pairs").rows(n, 0, n) for seed in range(trials)])
    pairs = orders[:, 0] * n + orders[:, 1]
    counts = np.bincount(pairs, minlength=n * n)[[a * n + b for a in range(n) for b in range(n) if a != b]]
    assert counts.sum() == trials
    assert stats.chisquare(counts).pvalue > ALPHA, counts


def test_orders_of_several_epochs_are_unrelated():
    n = 5000
    orders = [Key(0).child("order", epoch).positions(n, np.arange(n)) for epoch in range(4)]
    for a, b in itertools.combinations([np.arange(n), *orders], 2):
        assert abs(stats.spearmanr(a, b).statistic) < 5 / np.sqrt(n)
        assert stats.chisquare(np.bincount((a - b) % 50, minlength=50)).pvalue > ALPHA


def test_a_sample_is_spread_over_the_data():
    """The first thousand of a million places, over a hundred stretches of the data."""
    rows = Key(1).child("order", 0).rows(10**6, 0, 1000)
    assert stats.chisquare(np.bincount(rows // 10**4, minlength=100)).pvalue > ALPHA
    assert stats.chisquare(np.bincount(rows % 10, minlength=10)).pvalue > ALPHA


def test_uniform_numbers():
    key = Key(4).child("u")
    u = key.uniform(np.arange(50_000))
    assert ((u >= 0) & (u < 1)).all()
    assert stats.kstest(u, "uniform").pvalue > ALPHA
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.03
    assert_array_equal(key.uniform([17, 3]), u[[17, 3]])
    whole = key.integers(np.arange(50_000), 6)
    assert set(whole.tolist()) == set(range(6))
    assert stats.chisquare(np.bincount(whole)).pvalue > ALPHA
    assert key.integers(np.arange(100), 1).max() == 0
    assert key.hashes([]).shape == key.uniform([]).shape == (0,)


def test_as_key():
    assert as_key(3) == as_key(np.int64(3)) == Key(3)
    assert as_key(np.random.default_rng(0)) == as_key(np.random.default_rng(0))
    assert as_key(np.random.RandomState(0)) == as_key(np.random.RandomState(0))
    assert as_key(None) != as_key(None)
    for wrong in (-1, 1.5, True, "seed"):
        with pytest.raises(InvalidInputError, match="random_state"):
            as_key(wrong)


@pytest.mark.parametrize("n", [300, 70_000, 10_000_019, 2**31 + 5])
def test_orders_are_the_same_by_tables_and_by_mixing(n, monkeypatch):
    key, places = Key(5).child("order"), np.arange(0, min(n, 4000))
    looked_up = key.rows(n, 0, len(places)), key.positions(n, places)
    monkeypatch.setattr("daskkcl.random._LOOKED_UP", 10**9)
    np.testing.assert_array_equal(looked_up[0], key.rows(n, 0, len(places)))
    np.testing.assert_array_equal(looked_up[1], key.positions(n, places))
