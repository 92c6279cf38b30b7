"""Counter-based streams: NumPy's Philox is the oracle for every word, and a seed means what the documentation says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expfam.structures.ground.rng import RandomPurpose, UniformStream, generator, resolve_seed, stream_words

WORD = st.integers(0, 2**64 - 1)
EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1]


def philox(seed, purpose, unit, step):
    key = np.array([seed, purpose], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, unit, step, 0], dtype=np.uint64))


@settings(max_examples=300, deadline=None)
@given(seed=WORD, purpose=WORD, unit=WORD, step=WORD, size=st.integers(0, 33))
def test_words_are_those_of_numpy(seed, purpose, unit, step, size):
    words = stream_words(seed, purpose, unit, step, size)
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(words, philox(seed, purpose, unit, step).random_raw(size))


@pytest.mark.parametrize("seed", EDGES)
@pytest.mark.parametrize("purpose", list(RandomPurpose))
def test_words_at_the_edges_of_the_key(seed, purpose):
    for unit in EDGES:
        expected = philox(seed, purpose, unit, 2**64 - 1).random_raw(9)
        np.testing.assert_array_equal(stream_words(seed, purpose, unit, 2**64 - 1, 9), expected)


@pytest.mark.parametrize("purpose", list(RandomPurpose))
def test_generator_reads_the_same_stream(purpose):
    for seed, unit, step in [(0, 0, 0), (2**64 - 1, 5, 9), (12345, 2**40, 2**33)]:
        words = stream_words(seed, purpose, unit, step, 20)
        for name in (purpose, purpose.name.lower()):
            rng = generator(seed, name, unit=unit, step=step)
            np.testing.assert_array_equal(rng.bit_generator.random_raw(20), words)
        doubles = generator(seed, purpose, unit=unit, step=step).random(20)
        np.testing.assert_array_equal(doubles, (words >> np.uint64(11)) * 2.0**-53)


@pytest.mark.parametrize("purpose", list(RandomPurpose))
def test_uniform_numbers_are_those_of_the_generator(purpose):
    for seed, unit, step in [(0, 0, 0), (2**64 - 1, 5, 9), (12345, 2**40, 2**33)]:
        rng = generator(seed, purpose, unit=unit, step=step)
        stream = UniformStream(seed, purpose.name.lower(), unit=unit, step=step)
        for size in (3, 0, 10):  # the stream goes on where it was
            np.testing.assert_array_equal(stream.random(size), rng.random(size))


def test_a_generator_draws_no_entropy(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("entropy was read for a stream that has a key")

    monkeypatch.setattr("random.SystemRandom.getrandbits", refuse)
    rng = generator(3, "start")
    np.testing.assert_array_equal(rng.bit_generator.random_raw(5), stream_words(3, RandomPurpose.START, 0, 0, 5))
    with pytest.raises(ValueError, match="2 words of uint64; asked for 4 of uint32"):
        rng.bit_generator.seed_seq.generate_state(4)


def test_streams_differ_in_each_coordinate():
    base = {"seed": 1, "purpose": 1, "unit": 1, "step": 1}
    streams = [tuple(stream_words(**base, size=4))]
    for name in base:
        streams += [tuple(stream_words(**{**base, name: value}, size=4)) for value in (0, 2, 2**32, 2**63)]
    assert len(set(streams)) == len(streams)


def test_purposes_keep_their_numbers():
    # A seed's meaning includes these numbers: an old run must stay repeatable.
    names = ["MOVE", "ACCEPT", "ORDER", "POSTERIOR", "START", "HYPER", "TABLES", "CHOICE", "PREDICT", "SUBSAMPLE"]
    assert [(p.name, p.value) for p in RandomPurpose][:10] == [(name, i + 1) for i, name in enumerate(names)]
    assert len({p.value for p in RandomPurpose}) == len(RandomPurpose)


def test_pinned_words():
    # Written down once, so that a change of ours and NumPy's at the same time would be noticed too.
    assert stream_words(7, RandomPurpose.START, 3, 0, 2).tolist() == [9329779444205576987, 18420927415426471703]


@pytest.mark.parametrize("value", [0, 1, 7, 2**63, 2**64 - 1, np.int32(5), np.uint64(2**64 - 1), np.int64(3), True])
def test_an_integer_is_its_own_seed(value):
    seed = resolve_seed(value)
    assert type(seed) is int
    assert seed == int(value)


@pytest.mark.parametrize("value", [-1, 2**64, -(2**70), np.int64(-3)])
def test_integers_out_of_range_are_named(value):
    with pytest.raises(ValueError, match=rf"\[0, 2\*\*64\); got {value}"):
        resolve_seed(value)


@pytest.mark.parametrize("value", [1.0, "7", np.float64(3), [1], np.array([1, 2]), object])
def test_other_types_are_refused_by_name(value):
    with pytest.raises(TypeError):
        resolve_seed(value)


def test_refusal_names_what_was_given():
    with pytest.raises(TypeError, match="got '7'"):
        resolve_seed("7")


def test_none_takes_fresh_entropy():
    seeds = {resolve_seed() for _ in range(64)}
    assert len(seeds) == 64  # chance of an equal pair among 64-bit numbers: 1e-16
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) >= 2**58  # all 64 bits are in use: chance of a failure 2**-384


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_advanced_by_one_draw(make):
    rng = make(0)
    seeds = [resolve_seed(rng) for _ in range(20)]
    again = make(0)
    assert seeds == [resolve_seed(again) for _ in range(20)]
    assert len(set(seeds)) == 20
    assert max(seeds) >= 2**58  # as above
    assert all(type(seed) is int for seed in seeds)


def test_doubles_are_uniform_across_units():
    # One word of each of 40 000 units, as a sweep uses them: chi-square over 64 cells, 63 degrees of freedom.
    first = np.array([stream_words(11, RandomPurpose.MOVE, unit, 5, 1)[0] for unit in range(40_000)])
    counts = np.bincount((first >> np.uint64(58)).astype(int), minlength=64)
    statistic = ((counts - 625.0) ** 2 / 625.0).sum()
    assert 25 < statistic < 120  # both tails below 3e-5; the seed is fixed


@pytest.mark.parametrize("bad", [{"seed": -1}, {"unit": -1}, {"step": 2**64}])
def test_generator_refuses_numbers_beyond_64_bits(bad):
    arguments = {"seed": 1, "unit": 0, "step": 0, **bad}
    with pytest.raises(OverflowError):
        generator(arguments["seed"], "move", unit=arguments["unit"], step=arguments["step"])


def test_generator_refuses_an_unknown_purpose():
    with pytest.raises(KeyError, match="LUNCH"):
        generator(1, "lunch")
    with pytest.raises(KeyError, match="LUNCH"):
        UniformStream(1, "lunch")
