"""A subset by hashes: each row by its id alone, with the probability asked for."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable.coresets import CoreSetMap, RandomSubsample, maps
from erasable.errors import ConfigurationError
from erasable.research.theory import Information, leak
from tests.strategies import keys


def chosen(core_set, ids):
    return core_set.select(np.zeros((len(ids), 1)), np.zeros(len(ids)), ids).tolist()


@settings(max_examples=500)
@given(st.integers(1, 30).flatmap(lambda n: keys(n, distinct=True)), st.floats(0.01, 1.0), st.integers(0, 9), st.data())
def test_it_is_stable(ids, fraction, seed, data):
    core_set = RandomSubsample(fraction, seed)
    core = [ids[i] for i in chosen(core_set, ids)]
    gone = data.draw(st.sets(st.sampled_from(ids)))
    assert chosen(core_set, core) == list(range(len(core)))
    for gone_now in (gone, *({key} for key in core)):
        left = [key for key in core if key not in gone_now]
        assert chosen(core_set, left) == list(range(len(left)))


def test_a_fixed_number_of_rows_would_be_stable_too_but_tell_how_many_were_forgotten():
    """The two lowest hashes; the lowest of three rows may or may not have been there, and what is left says it."""
    lot = {"a": 1, "b": 2, "c": 3}

    def lowest(S, m=2):
        return sorted(sorted(range(len(S)), key=lambda i: lot[S[i]])[:m])

    for S in itertools.permutations(lot):
        core = [S[i] for i in lowest(S)]
        for gone in core:
            left = tuple(key for key in core if key != gone)
            assert lowest(left) == list(range(len(left)))

    process = {(("a", "b", "c"), (0,)): 0.5, (("b", "c"), ()): 0.5}
    assert leak(process, lowest) == Information(core=1.0, rest=0.0, extra=1.0)
    shares = [RandomSubsample(0.5, seed) for seed in range(20)]
    assert {len(chosen(share, list(lot))) for share in shares} == {0, 1, 2, 3}
    for share in shares:
        assert leak(process, lambda S, share=share: chosen(share, list(S))).core == 0.0


@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True), st.randoms(use_true_random=False))
def test_order_plays_no_part(ids, random):
    core_set = RandomSubsample(0.5)
    shuffled = random.sample(ids, len(ids))
    assert {ids[i] for i in chosen(core_set, ids)} == {shuffled[i] for i in chosen(core_set, shuffled)}


@pytest.mark.parametrize("fraction", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("name", [int, str, lambda i: str(i).encode()])
def test_the_share_is_the_fraction(fraction, name):
    n = 20_000
    kept = len(chosen(RandomSubsample(fraction, 3), [name(i) for i in range(n)]))
    assert abs(kept - fraction * n) < 5 * math.sqrt(n * fraction * (1 - fraction))


def test_the_fraction_one_keeps_everything_and_larger_fractions_keep_more():
    ids = list(range(5000))
    subsets = [set(chosen(RandomSubsample(f), ids)) for f in (0.1, 0.2, 0.7, 1.0)]
    assert subsets[0] < subsets[1] < subsets[2] < subsets[3] == set(ids)


def test_seeds_draw_independently():
    ids = list(range(20_000))
    one, other = (set(chosen(RandomSubsample(0.5, seed), ids)) for seed in (0, 1))
    assert abs(len(one & other) - 5000) < 5 * math.sqrt(20_000 * 3 / 16)


def test_ids_come_as_a_list_a_range_or_an_array():
    core_set = RandomSubsample(0.4)
    right = chosen(core_set, list(range(50)))
    assert 5 < len(right) < 45
    assert chosen(core_set, range(50)) == chosen(core_set, np.arange(50)) == right
    assert chosen(core_set, []) == []


def test_all_rows_means_also_the_one_with_the_largest_lot(monkeypatch):
    monkeypatch.setattr(maps, "keyed_hash", lambda ids, key: np.array([2**64 - 1, 0], dtype=np.uint64))
    assert chosen(RandomSubsample(1.0), [7, 1]) == [0, 1]
    assert chosen(RandomSubsample(math.nextafter(1.0, 0.0)), [7, 1]) == [1]


@pytest.mark.parametrize("half", [np.float16(0.5), np.float32(0.5), np.float64(0.5)])
def test_numpy_fractions_mean_what_they_say(half):
    assert chosen(RandomSubsample(half), range(100)) == chosen(RandomSubsample(0.5), range(100))
    assert chosen(RandomSubsample(np.float32(1)), range(100)) == chosen(RandomSubsample(1), range(100)) == [*range(100)]


def test_a_map_is_its_configuration():
    core_set = RandomSubsample(np.float64(0.25), np.int64(3))
    assert core_set == RandomSubsample(0.25, 3) == pickle.loads(pickle.dumps(core_set))
    assert isinstance(core_set, CoreSetMap)
    assert core_set.stable
    assert core_set.describe() == {
        "map": "random-subsample",
        "fraction": "0x1.0000000000000p-2",
        "random_state": "3",
    }


@pytest.mark.parametrize(
    "bad",
    [
        (0.0,),
        (-0.5,),
        (1.0001,),
        (math.nan,),
        ("0.5",),
        (None,),
        (True,),
        (0.5, -1),
        (0.5, 1.0),
        (0.5, None),
        (0.5, True),
    ],
    ids=repr,
)
def test_a_configuration_that_cannot_work_is_refused(bad):
    with pytest.raises(ConfigurationError):
        RandomSubsample(*bad)
