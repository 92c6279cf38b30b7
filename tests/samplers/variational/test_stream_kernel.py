"""What the three kernels that learn chunks have in common: how streams begin, and what they keep of a chunk."""

import inspect

import numpy as np
import pytest

from expfam import AdmixtureModel, Dataset, MixtureModel, Multinomial, Poisson, SymmetricDirichlet
from expfam.errors import DataWarning
from expfam.samplers import GroupedVariational, Memoized, SparseVariational, Stochastic, TopicVariational


def of_rows(N=40, K=5):
    X = np.random.default_rng(0).poisson(np.repeat([[1, 9], [9, 1]], N // 2, axis=0))
    data = Dataset(X, Poisson())
    return MixtureModel(data.family, SymmetricDirichlet(K)), data


def of_groups(N=40, K=5):
    _, rows = of_rows(N)
    data = Dataset(rows.X, Poisson(), groups=np.arange(rows.n_rows) % 4)
    return AdmixtureModel(data.family, K, alpha=0.5), data


def of_words(D=40, K=2):
    X = np.random.default_rng(0).poisson(np.repeat([[1, 9, 4], [9, 1, 4]], D // 2, axis=0))
    data = Dataset(X, Multinomial(0.1))
    return AdmixtureModel(data.family, K, alpha=0.5), data


def memoized(kind, **settings):
    return kind(schedule=Memoized(), **settings)


KERNELS = {SparseVariational: of_rows, GroupedVariational: of_groups, TopicVariational: of_words}
each = pytest.mark.parametrize(("kind", "case"), KERNELS.items(), ids=lambda value: value.__name__)


@each
def test_a_stream_begins_with_a_guess_of_the_weight_of_the_first_chunk(kind, case):
    model, data = case()
    stream = memoized(kind).stream(model, data, seed=0)
    assert stream.is_guess
    assert stream.total_weight == data.n_rows
    assert stream.n_steps == 0
    assert stream.learn(data, batch=0).step == 1
    assert not stream.is_guess


@each
def test_a_resumed_stream_continues_from_a_fit(kind, case):
    model, data = case()
    kernel = memoized(kind)
    first = kernel.stream(model, data, seed=0)
    first.learn(data, batch=0)
    fits = {
        SparseVariational: lambda: (first.n, first.S),
        GroupedVariational: lambda: (first.n, first.S, first.group_counts, first.log_joint),
        TopicVariational: lambda: (first.sums,),
    }
    second = kernel.resumed_stream(first.model, data, *fits[kind](), seed=1)
    assert type(second) is type(first)
    assert second.seed == 1
    assert second.total_weight == pytest.approx(data.n_rows)
    assert not second.is_guess
    total = "word_counts" if kind is TopicVariational else "n"
    np.testing.assert_allclose(getattr(second, total), getattr(first, total), rtol=1e-12)


@each
@pytest.mark.parametrize("method", ["stream", "resumed_stream"])
def test_settings_of_schedules_are_checked_before_anything_else(kind, case, method):
    with pytest.raises(ValueError, match="batch_size"):
        getattr(kind(schedule=Stochastic(batch_size=0)), method)(*case(), seed=0)


@pytest.mark.parametrize("kind", [SparseVariational, GroupedVariational])
def test_the_start_has_the_number_of_clusters_that_is_asked_for(kind):
    model, data = KERNELS[kind]()
    stream = memoized(kind).stream(model, data, seed=0, start="random", n_clusters=2)
    assert np.count_nonzero(stream.n) == 2


@pytest.mark.parametrize("kind", [SparseVariational, GroupedVariational])
def test_few_rows_are_warned_of_where_the_caller_was_called(kind):
    model, data = KERNELS[kind](N=4)

    def estimator():
        return kind().stream(model, data, seed=0)

    with pytest.warns(DataWarning, match="5 clusters for 4 data in the first chunk") as record:
        estimator()
    called = inspect.getsourcelines(estimator)[1] + 1  # the innermost line that is not the package's
    assert (record[0].filename, record[0].lineno) == (__file__, called)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_batches_keep_the_smaller_of_sums_and_responsibilities(dtype, size):
    kernel, K, F, L = SparseVariational(3, dtype=dtype), 10, 4, 3
    for n_batches in (1, 4):
        for has_indices in (False, True):
            most = 8 * n_batches * K * (F + 1) // (L * (size + (0 if has_indices else 4)))  # rows that need less
            kept = [
                kernel.memo_of_sizes(K, n_rows, F, n_batches=n_batches, has_indices=has_indices)
                for n_rows in (most, most + 1)
            ]
            assert kept == ["rows", "statistics"]
    assert kernel.memo_of_sizes(3, 1, F) == "statistics"  # all responsibilities are no sparse record
    assert SparseVariational(3, memo="rows").memo_of_sizes(K, 10**9, F) == "rows"
    assert SparseVariational(3, memo="statistics").memo_of_sizes(K, 1, F) == "statistics"


@pytest.mark.parametrize(("N", "has_rows"), [(6, True), (100, False)])
def test_a_stream_keeps_what_the_rule_says(N, has_rows):
    model, data = of_rows(N)
    kernel = memoized(SparseVariational, n_active=2)
    stream = kernel.stream(model, data, seed=0)
    stream.learn(data, batch="a")
    assert (kernel.memo_of_sizes(5, N, data.n_statistics) == "rows") == has_rows
    assert (stream.memo["a"].indices is not None) == has_rows
    assert (stream.memo["a"].sums is None) == has_rows


def test_a_stochastic_stream_keeps_no_rows():
    model, data = of_rows(6)
    stream = SparseVariational(2, schedule=Stochastic(batch_size=6, n_total=60)).stream(model, data, seed=0)
    stream.learn(data)
    assert not stream._keeps_rows(data.n_rows)
