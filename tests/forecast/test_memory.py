"""The memory forecast follows the sizes, and a fit beyond the limit does not begin."""

import numpy as np
import pytest

from expfam import Dataset, Gaussian, Mixture, Poisson, TopicModel
from expfam.errors import ResourceError
from expfam.forecast.memory import check_memory, forecast_memory, forecast_sizes, format_bytes, parse_bytes


def test_parts_add_up():
    data = Dataset(np.ones((1000, 8)), Poisson())
    forecast = forecast_memory(data, n_components=5)
    assert forecast.data == 64000
    assert forecast.total == forecast.data + forecast.beside_data
    assert forecast.beside_data == forecast.labels + forecast.statistics + forecast.scratch
    assert not forecast.is_guess
    assert forecast_memory(data).is_guess


def test_it_grows_with_what_it_should():
    small = forecast_sizes("gaussian", n_rows=1000, n_features=10, n_components=10)
    assert forecast_sizes("gaussian", n_rows=1000, n_features=10, n_components=1000).statistics > 50 * small.statistics
    assert forecast_sizes("gaussian", n_rows=1000, n_features=40, n_components=10).statistics > 10 * small.statistics
    of_row = 28 + 4  # labels, orders and masses; the probability of the label, a float32
    assert small.labels == 1000 * of_row
    sizes = {"n_rows": 10**6, "n_features": 10}
    # three copies of each draw that is kept, of one byte a row up to 256 clusters
    assert forecast_sizes("gaussian", **sizes, n_components=256, n_draws=20).labels == 10**6 * (of_row + 3 * 20)
    assert forecast_sizes("gaussian", **sizes, n_components=257, n_draws=20).labels == 10**6 * (of_row + 3 * 2 * 20)
    assert forecast_sizes("gaussian", **sizes, n_draws=20).labels == 10**6 * (of_row + 3 * 2 * 20)


@pytest.mark.parametrize("limit", [10**6, 1e6, "1MB"])
def test_beyond_the_limit_is_refused_with_the_figures(limit):
    forecast = forecast_sizes("multinomial", n_rows=10**6, n_features=10**5, nnz=10**8, n_components=10**4)
    with pytest.raises(ResourceError) as caught:
        check_memory(forecast, limit)
    assert format_bytes(forecast.beside_data) in str(caught.value)
    assert format_bytes(1e6) in str(caught.value)
    check_memory(forecast, 10**12)


def test_a_fit_that_cannot_be_held_does_not_begin():
    X = np.ones((10, 3000))
    X[:5] += 1.0 + np.arange(3000)
    mixture = Mixture(Gaussian(), n_components=2, memory_limit="100MB", n_steps=1)
    with pytest.raises(ResourceError, match="memory_limit"):
        mixture.fit(X)
    assert not hasattr(mixture, "labels_")


@pytest.mark.parametrize(("text", "size"), [("5", 5), ("4GB", 4 * 10**9), ("1.5 MiB", 1.5 * 2**20), ("2k", 2000)])
def test_sizes_in_words(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "4XB", "nan", "1e400", "1e308TB"])
def test_bad_sizes(text):
    with pytest.raises(ValueError):
        parse_bytes(text)


def test_tokens_of_topics_are_what_the_advice_is_about():
    X = np.random.default_rng(0).poisson(1, (50, 30)).astype(float)
    X[0, 0] = 1e9
    with pytest.raises(ResourceError, match=r"holds each of the 1e\+09 tokens.*TopicModel\(5, sampler=.variational., "):
        TopicModel(5, random_state=0, memory_limit="1GB").fit(X)
    given = TopicModel(5, sampler="variational", random_state=0, memory_limit="1GB", n_steps=2)
    assert given.fit(X).n_iter_ == 2  # the advice helps
    with pytest.raises(ResourceError, match="use fewer components or columns"):
        TopicModel(10**6, random_state=0, memory_limit="10MB").fit(np.ones((4, 30)))


def test_tables_of_many_rows_are_what_the_advice_is_about():
    X = np.random.default_rng(0).normal(size=(400_000, 16)).astype(np.float32)
    advice = r"tables of 400,000 rows are most of it: write Mixture\(.*sampler='variational'.*\), which needs .* MB,"
    with pytest.raises(ResourceError, match=advice):
        Mixture("gaussian_diag", 4, random_state=0, memory_limit="130MB").fit(X)
    named = Mixture("gaussian_diag", 4, sampler="variational", random_state=0)
    assert named.plan_fit(X).forecast().beside_data < 130e6  # the advice helps
    with pytest.raises(ResourceError, match="use fewer components or columns"):
        Mixture("gaussian_diag", 4, sampler="variational", random_state=0, memory_limit="10MB").fit(X)
    with pytest.raises(
        ResourceError, match="use fewer components or columns"
    ):  # statistics, of a sampler without tables
        Mixture("gaussian_diag", 50_000, random_state=0, memory_limit="30MB").fit(X[:2000])
