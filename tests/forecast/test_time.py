"""The forecast of time is a range about a measured rate; it refuses only where a limit was set, with figures."""

import numpy as np
import pytest
from scipy import sparse

import expfam as ef
import expfam.estimators.grouped_plan as plan_module
import expfam.estimators.grouped_results as results_module
import expfam.fitted.row_certainty as certainty_module
import expfam.forecast.time as duration_module
from expfam.cli import main
from expfam.errors import ResourceError
from expfam.forecast.time import (
    Duration,
    check_duration,
    forecast_duration,
    forecast_tree_duration,
    format_seconds,
    parse_seconds,
)
from expfam.samplers import (
    CollapsedGibbs,
    ExpectationMaximization,
    HierarchicalClustering,
    TopicGibbs,
    TopicVariational,
)
from expfam.samplers.topics import start as topic_start


class Clock:
    """Time that passes only where the kernel says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Timed(CollapsedGibbs):
    """A kernel of a known cost: so much for the start and each step, and so much for each row."""

    clock = None
    costs = (0.0, 0.0, 0.0, 0.0)

    def init(self, model, data, **options):
        state = super().init(model, data, **options)
        self.clock.now += self.costs[0] + self.costs[1] * data.n_rows
        return state

    def step(self, state):
        self.clock.now += self.costs[2] + self.costs[3] * state.data.n_rows


@pytest.fixture
def timed(monkeypatch):
    """Forecast for a kernel of given costs on so many rows."""
    clock = Clock()
    monkeypatch.setattr(duration_module, "perf_counter", clock)

    def forecast(costs, n_rows, n_steps=100, start="random"):
        monkeypatch.setattr(Timed, "clock", clock)
        monkeypatch.setattr(Timed, "costs", costs)
        data = ef.Dataset(np.arange(float(n_rows))[:, None], ef.DiagonalGaussian())
        model = ef.MixtureModel(data.family, ef.SymmetricDirichlet(3))
        return forecast_duration(Timed(), model, data, n_steps, start=start)

    return forecast


@pytest.mark.parametrize(
    ("costs", "n_rows"),
    [
        ((0.0, 0.0, 0.0, 1e-5), 30_000),
        ((1.0, 1e-4, 0.05, 1e-5), 30_000),
        ((0.0, 0.0, 20.0, 0.0), 30_000),  # the first probe is too long for a second one
        ((0.0, 1e-2, 0.0, 1e-6), 5000),
        ((0.0, 0.0, 0.0, 1e-7), 300),  # fewer rows than the first probe has
    ],
)
def test_a_cost_that_is_a_line_lies_in_the_range(timed, costs, n_rows):
    found = timed(costs, n_rows)
    cost = costs[0] + costs[1] * n_rows + 100 * (costs[2] + costs[3] * n_rows)
    assert found.low == pytest.approx(0.4 * cost)
    assert found.high >= 3.0 * cost * (1 - 1e-12)
    assert found.n_steps == 100


def test_probes_end_early_and_are_counted(timed):
    found = timed((0.0, 0.0, 0.0, 1e-3), 30_000)
    assert found.probe_rows == 2000
    assert found.probe_seconds == pytest.approx(3 * 1e-3 * (500 + 2000))
    assert timed((0.0, 0.0, 0.0, 0.1), 30_000).probe_rows == 500
    assert timed((0.0, 0.0, 0.0, 1e-9), 30_000, start=np.zeros(30_000, dtype=int)).probe_rows == 30_000


def test_a_real_fit_takes_about_as_long(tmp_path):
    """The machine may be busy, so only a gross error shows: a factor of ten beyond either end."""
    X = sparse.csr_array(np.random.default_rng(0).poisson(0.3, (20_000, 50)))
    data = ef.Dataset(X, ef.Multinomial(0.1))
    model, kernel = ef.MixtureModel(data.family, ef.SymmetricDirichlet(20)), ExpectationMaximization()
    found = forecast_duration(kernel, model, data, 10)
    before = duration_module.perf_counter()
    state = kernel.init(model, data, seed=0)
    for _ in range(10):
        kernel.step(state)
    assert found.low / 10 < duration_module.perf_counter() - before < 10 * found.high


def test_the_limit_refuses_by_its_low_end_with_the_figures():
    found = Duration(low=600.0, high=7200.0, probe_rows=2000, probe_seconds=1.0, n_steps=50)
    check_duration(found, 600)
    check_duration(found, "10min")
    with pytest.raises(ResourceError, match=r"10 min to 2 h for 50 steps, going by 2,000 .*; 9 min are allowed"):
        check_duration(found, "9min")


def test_a_mixture_asks_only_where_there_is_a_limit(monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 3))
    asked = []
    real = forecast_duration
    monkeypatch.setattr("expfam.forecast.time.forecast_duration", lambda *a, **k: asked.append(a) or real(*a, **k))
    ef.Mixture(n_steps=2).fit(X)
    assert not asked
    free, limited = (ef.Mixture(n_steps=5, random_state=0, time_limit=limit).fit(X) for limit in (None, "1h"))
    assert [arguments[3] for arguments in asked] == [10]
    np.testing.assert_array_equal(free.labels_, limited.labels_)  # timing leaves no trace in the result
    refused = ef.Mixture(n_steps=100_000, time_limit=1.0)
    with pytest.raises(ResourceError, match="time_limit"):
        refused.fit(X)
    assert not hasattr(refused, "labels_")
    with pytest.raises(ValueError, match="amount of time"):
        ef.Mixture(time_limit="soon").fit(X)


X = np.random.default_rng(0).standard_normal((400, 3))
COUNTS = np.random.default_rng(0).poisson(1.0, (400, 6))
GROUPS = np.arange(400) % 20
ESTIMATORS = {
    "topics by sampling": (lambda **s: ef.TopicModel(3, random_state=0, **s), COUNTS, {}, 100),
    "topics by passes": (lambda **s: ef.TopicModel(3, sampler="variational", random_state=0, **s), COUNTS, {}, 50),
    "groups by sampling": (
        lambda **s: ef.GroupedMixture("gaussian_diag", 3, random_state=0, **s),
        X,
        {"groups": GROUPS},
        100,
    ),
    "groups by passes": (
        lambda **s: ef.GroupedMixture("gaussian_diag", 3, sampler="variational", random_state=0, **s),
        X,
        {"groups": GROUPS},
        50,
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_other_estimators_have_the_same_interface(name, monkeypatch):
    make, data, options, n_steps = ESTIMATORS[name]
    asked, real = [], forecast_duration
    monkeypatch.setattr("expfam.forecast.time.forecast_duration", lambda *a, **k: asked.append(a) or real(*a, **k))
    free = make(n_steps=50).fit(data, **options)
    assert not asked
    limited = make(n_steps=50, time_limit="1h").fit(data, **options)
    assert [arguments[3] for arguments in asked] == [n_steps]
    learned = "components_" if hasattr(free, "components_") else "S_"
    np.testing.assert_array_equal(getattr(free, learned), getattr(limited, learned))  # timing leaves no trace
    refused = make(n_steps=10**9, time_limit=1.0)
    with pytest.raises(ResourceError, match=r"for \d+ steps, going by 400 of the rows; 1 s are allowed .time_limit."):
        refused.fit(data, **options)
    assert not hasattr(refused, learned)
    with pytest.raises(ValueError, match="amount of time"):
        make(time_limit="soon").fit(data, **options)


@pytest.mark.parametrize("part_tokens", [10**9, 60_000, 30_000, 1])  # all of 72,000, less, a quarter
def test_the_start_of_topics_costs_in_the_forecast_what_it_costs_in_the_fit(part_tokens, monkeypatch):
    """By a clock of the tokens that passes and sweeps read: samples pass over the share that is passed over of all."""
    clock, N = Clock(), 9000
    monkeypatch.setattr(duration_module, "perf_counter", clock)
    monkeypatch.setattr(topic_start, "PART_TOKENS", part_tokens)
    for kernel, cost in ((TopicVariational, 1e-4), (TopicGibbs, 1e-6)):

        def step(self, state, real=kernel.step, cost=cost):
            clock.now += cost * state.data.X.sum()
            return real(self, state)

        monkeypatch.setattr(kernel, "step", step)
    words = np.random.default_rng(0).integers(0, 10, (N, 8))
    counts = np.zeros((N, 10))
    np.add.at(counts, (np.arange(N)[:, None], words), 1.0)
    data = ef.Dataset(sparse.csr_array(counts), ef.Multinomial(0.1))
    model, kernel = ef.AdmixtureModel(data.family, 3), TopicGibbs()
    found = forecast_duration(kernel, model, data, 50, start="variational")
    assert found.probe_rows < N
    before = clock.now
    state = kernel.init(model, data, seed=0, start="variational")
    for _ in range(50):
        kernel.step(state)
    took = clock.now - before
    assert found.low == pytest.approx(0.4 * took, rel=1e-2)
    assert found.high >= 3.0 * took * 0.99


def test_samples_of_rows_in_groups_are_whole_groups():
    """Of a hundred groups of 50 rows ten hold the 500 of the first sample."""
    seen = []

    class Seen(CollapsedGibbs):
        takes_groups = True

        def init(self, model, data, **options):
            assert "n_clusters" not in options
            seen.append(data)
            return data

        def step(self, state):
            pass

    data = ef.Dataset(np.arange(5000.0)[:, None], ef.DiagonalGaussian(), groups=np.arange(5000) % 100)
    found = forecast_duration(Seen(), ef.AdmixtureModel(data.family, 3), data, 10)
    assert [sample.n_rows for sample in seen] == [500, 2000, 5000]
    assert found.probe_rows == 5000
    for sample in seen:
        assert (sample.groups.sizes == 50).all()
        values = sample.X[:, 0].astype(int) % 100
        assert (np.unique(values, return_inverse=True)[1] == sample.groups.of_row).all()
    lone = ef.Dataset(np.arange(3000.0)[:, None], ef.DiagonalGaussian(), groups=np.zeros(3000, dtype=int))
    assert forecast_duration(Seen(), ef.AdmixtureModel(lone.family, 3), lone, 10).probe_rows == 3000


@pytest.mark.parametrize(("power", "low"), [(2.0, 2.0), (1.0, 1.0), (0.0, 0.0), (3.0, 2.0)])
def test_trees_cost_a_power_of_the_rows(power, low, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(duration_module, "perf_counter", clock)

    def grow(rows, sample):
        clock.now += 1e-3 * (sample.n_rows / 500) ** power
        np.testing.assert_array_equal(data.X[rows], sample.X)

    data = ef.Dataset(np.arange(40_000.0)[:, None], ef.DiagonalGaussian())
    found = forecast_tree_duration(grow, data)
    n = found.probe_rows
    assert found.low == pytest.approx(0.4 * 1e-3 * (n / 500) ** power * (40_000 / n) ** low)
    assert found.high == pytest.approx(3.0 * 1e-3 * (n / 500) ** power * (40_000 / n) ** 2)
    assert (found.n_steps, found.unit) == (39_999, "merges")


def test_a_tree_asks_only_where_there_is_a_limit():
    rows = np.random.default_rng(0).standard_normal((700, 3))
    calls = []
    settings = {"callbacks": [lambda info, state: calls.append(state.data.n_rows)]}
    graph = sparse.csr_array(np.tri(700, k=-1)[:, ::-1] * 1.0)
    near, given = (HierarchicalClustering(candidates=candidates) for candidates in ("knn", graph))
    for extra in ({"sampler": near}, {"start": np.arange(700) // 7}, {"sampler": given}):
        free, limited = (ef.BayesianHierarchy(**settings | extra, time_limit=limit).fit(rows) for limit in (None, "1h"))
        np.testing.assert_array_equal(free.children_, limited.children_)
    assert set(calls) == {700}  # samples are grown unseen
    big = np.random.default_rng(0).standard_normal((60_000, 3))
    refused = ef.BayesianHierarchy(time_limit="1s", leaves="rows")
    with pytest.raises(ResourceError, match=r"for 59999 merges, going by [\d,]+ of the rows; 1 s are allowed"):
        refused.fit(big)
    assert not hasattr(refused, "tree_")


def test_the_command_line_prints_a_range_and_refuses(tmp_path, capsys, monkeypatch):
    path = tmp_path / "points.npy"
    np.save(path, np.random.default_rng(0).standard_normal((600, 2)))
    fit = ["fit", str(path), "--family", "gaussian_diag", "-k", "3", "--seed", "0", "--steps"]
    assert main([*fit, "5", "--time-limit", "1h"]) == 0
    assert " for 10 steps, going by 600 of the rows" in capsys.readouterr().out
    assert main([*fit, "1000000", "--time-limit", "1s"]) == 1
    assert "are allowed (time_limit)" in capsys.readouterr().err
    assert main([*fit, "5", "--time-limit", "soon"]) == 2
    assert "such as '10min'" in capsys.readouterr().err
    assert main([*fit, "5"]) == 0
    assert "time " not in capsys.readouterr().out
    monkeypatch.setattr("expfam.stages.TIMED_ROWS", 600)
    assert main([*fit, "5"]) == 0
    assert "time      about " in capsys.readouterr().out


def test_amounts_of_time():
    for text, value in ((90, 90.0), ("90", 90.0), ("90s", 90.0), ("1.5 h", 5400.0), ("10min", 600.0), ("1d", 86400.0)):
        assert parse_seconds(text) == value
    for text in ("", "min", "-3", "0", "nan", "5 apples", None):
        with pytest.raises(ValueError, match="amount of time"):
            parse_seconds(text)
    words = [format_seconds(s) for s in (0.0123, 5.0, 119.0, 150.0, 7300.0, 4e5)]
    assert words == ["0.012 s", "5 s", "119 s", "2.5 min", "2 h", "4.6 d"]


@pytest.mark.parametrize("sampler", ["gibbs", "variational"])
@pytest.mark.parametrize("family", ["gaussian_diag", "poisson"])
def test_the_search_of_groups_and_the_certainty_of_labels_cost_in_the_forecast_what_they_cost_in_the_fit(
    sampler, family, monkeypatch
):
    """By a clock of the rows that the search begins with, and that are asked for their certainty."""
    clock, found, N = Clock(), [], 12_000
    real = forecast_duration

    def told(*arguments, **options):
        found.append(real(*arguments, **options))
        return found[0]

    def search(kernel, model, data, start, *, real=plan_module.grouped_start, **options):
        clock.now += 1e-3 * data.n_rows
        labels = np.arange(data.n_rows) % 3 if start == "auto" else start  # the search itself is not what is timed
        return real(kernel, model, data, labels, **options)

    def certainty(family, data, *arguments, real=certainty_module.certainty_of_labels, **options):
        clock.now += 1e-2 * data.n_rows
        return real(family, data, *arguments, **options)

    monkeypatch.setattr(duration_module, "perf_counter", clock)
    monkeypatch.setattr(duration_module, "forecast_duration", told)
    monkeypatch.setattr(plan_module, "grouped_start", search)
    for module in (certainty_module, results_module):
        monkeypatch.setattr(module, "certainty_of_labels", certainty)
    rows = np.random.default_rng(0).poisson(3.0, (N, 2)).astype(float)
    mixture = ef.GroupedMixture(family, 3, sampler=sampler, n_steps=2, n_warmup=0, random_state=0, time_limit="1d")
    before = clock.now
    mixture.fit(rows, groups=np.arange(N) % 40)
    took = 1e-3 * N + 1e-2 * N
    assert clock.now - before == pytest.approx(took + (1e-3 + 1e-2) * (500 + 2000 + 8000), rel=0.5)  # samples, then all
    assert found[0].low == pytest.approx(0.4 * took, rel=0.1)
    assert found[0].high >= 3.0 * took * 0.99


def test_the_certainty_of_labels_is_in_the_forecast_of_a_mixture(monkeypatch):
    clock, found, N = Clock(), [], 12_000
    real = forecast_duration
    monkeypatch.setattr(duration_module, "perf_counter", clock)
    monkeypatch.setattr(duration_module, "forecast_duration", lambda *a, **k: found.append(real(*a, **k)) or found[0])

    def certainty(family, data, *arguments, real=certainty_module.certainty_of_labels, **options):
        clock.now += 1e-2 * data.n_rows
        return real(family, data, *arguments, **options)

    monkeypatch.setattr(certainty_module, "certainty_of_labels", certainty)
    rows = np.random.default_rng(0).normal(size=(N, 2))
    ef.Mixture("gaussian_diag", 3, n_steps=1, random_state=0, time_limit="1d").fit(rows)
    assert found[0].low == pytest.approx(0.4 * 1e-2 * N, rel=0.1)
