"""Laws of one slice-sampling update by itself: started from exact draws it keeps their density and is reversible.

Each step starts from an independent exact draw x0 of a known density. Then x1 must have that density too, and the pair
(x0, x1) must have the same law as (x1, x0). Both are judged by chi-square on cells of equal probability. Seeds are
fixed; a right sampler fails at one seed in a hundred thousand.
"""

import numpy as np
import pytest
from invariance import symmetry_p
from scipy import stats

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, Family, Gaussian, Poisson, ZeroMeanGaussian
from expfam.families.slice_sampling import slice_sample

N, CELLS, LEAST_P = 6000, 12, 1e-5


class Density:
    """A known density: log density up to a constant, exact draws, its distribution function, and bounds."""

    def __init__(self, components, *, low=-np.inf, high=np.inf):
        self.weights = np.array([weight for weight, _ in components])
        self.laws = [law for _, law in components]
        self.low, self.high = low, high

    def log(self, t):
        assert self.low <= t <= self.high, f"the target was asked for {t}, outside its bounds"
        return np.log(sum(w * law.pdf(t) for w, law in zip(self.weights, self.laws)) + 1e-300)

    def draw(self, size, rng):
        which = rng.choice(len(self.laws), p=self.weights, size=size)
        return np.array([law.rvs(size, random_state=rng) for law in self.laws])[which, np.arange(size)]

    def cdf(self, x):
        return sum(w * law.cdf(x) for w, law in zip(self.weights, self.laws))


class Plain:
    """Densities of one formula, many times faster than scipy's."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd

    def pdf(self, t):
        return np.exp(-0.5 * ((t - self.mean) / self.sd) ** 2) / self.sd

    def rvs(self, size, random_state):
        return random_state.normal(self.mean, self.sd, size)

    def cdf(self, x):
        return stats.norm.cdf(x, self.mean, self.sd)


class Piece:
    """Constant density between two numbers."""

    def __init__(self, left, right):
        self.left, self.right = left, right

    def pdf(self, t):
        return (self.left < t < self.right) / (self.right - self.left)

    def rvs(self, size, random_state):
        return random_state.uniform(self.left, self.right, size)

    def cdf(self, x):
        return np.clip((x - self.left) / (self.right - self.left), 0.0, 1.0)


class Wedge:
    """Density 2 (1 - t) between 0 and 1: highest at its lower bound."""

    def pdf(self, t):
        return 2.0 * (1.0 - t)

    def rvs(self, size, random_state):
        return 1.0 - np.sqrt(random_state.random(size))

    def cdf(self, x):
        return 1.0 - (1.0 - x) ** 2


NORMAL = Density([(1.0, Plain(0.0, 1.0))])
TWO_HILLS = Density([(0.7, Plain(0.0, 0.6)), (0.3, Plain(2.5, 0.25))])
TWO_PIECES = Density([(0.75, Piece(0.0, 1.5)), (0.25, Piece(2.0, 2.5))])
BOUNDED_PIECES = Density([(0.75, Piece(0.0, 1.5)), (0.25, Piece(2.0, 2.5))], low=0.0, high=2.5)
BOUNDED_HILLS = Density([(0.75, Plain(-0.3, 0.3)), (0.25, Plain(2.0, 0.15))], low=-3.5, high=3.0)
WEDGE = Density([(1.0, Wedge())], low=0.0, high=1.0)
CASES = {
    "normal": (NORMAL, {}),
    "normal, narrow steps": (NORMAL, {"width": 0.2}),
    "normal, wide steps": (NORMAL, {"width": 12.0}),
    "normal, no step out": (NORMAL, {"width": 1.5, "max_steps": 1}),
    "normal, one step out": (NORMAL, {"width": 0.8, "max_steps": 2}),
    "normal, few steps out": (NORMAL, {"width": 0.4, "max_steps": 5}),
    "two hills": (TWO_HILLS, {}),
    "two hills, wide steps": (TWO_HILLS, {"width": 6.0}),
    "two pieces": (TWO_PIECES, {}),
    "two pieces, wide steps": (TWO_PIECES, {"width": 4.0}),
    "two pieces between bounds": (BOUNDED_PIECES, {"width": 50.0}),
    "two hills between bounds": (BOUNDED_HILLS, {"width": 50.0}),
    "wedge": (WEDGE, {}),
    "wedge, narrow steps": (WEDGE, {"width": 0.15, "max_steps": 4}),
    "wedge, wide steps": (WEDGE, {"width": 3.0}),
}


def moved(density, options, *, sampler=slice_sample, seed=1, n=N):
    """Exact draws and what one update of each gave, as numbers of cells of equal probability."""
    rng = np.random.default_rng(seed)
    before = density.draw(n, rng)
    after = np.array([sampler(density.log, t, rng, low=density.low, high=density.high, **options) for t in before])
    return [np.minimum((CELLS * density.cdf(x)).astype(int), CELLS - 1) for x in (before, after)]


def p_values(before, after):
    """Chi-square p of the density after the update, and of the symmetry of the moves."""
    flows = np.zeros((CELLS, CELLS))
    np.add.at(flows, (before, after), 1)
    return stats.chisquare(flows.sum(axis=0)).pvalue, symmetry_p(flows)


@pytest.mark.parametrize("case", CASES)
def test_an_update_keeps_the_density_and_is_reversible(case):
    kept, symmetric = p_values(*moved(*CASES[case]))
    assert kept > LEAST_P
    assert symmetric > LEAST_P


def toward_the_middle(target, t, rng, *, width=1.0, low=-np.inf, high=np.inf, max_steps=20):
    """The same, but rejected points cut the interval as seen from its middle: keeps every density of one hill."""
    level = target(t) + np.log1p(-rng.random())
    left = t - width * rng.random()
    right = left + width
    while left > low and target(left) > level:
        left -= width
    while right < high and target(right) > level:
        right += width
    left, right = max(left, low), min(right, high)
    while right - left > 1e-12 * (1.0 + abs(t)):
        proposal = left + (right - left) * rng.random()
        if target(proposal) > level:
            return proposal
        if proposal < 0.5 * (left + right):
            left = proposal
        else:
            right = proposal
    return t


@pytest.mark.parametrize("case", ["two hills between bounds", "two pieces between bounds"])
def test_shrinking_toward_the_middle_is_found_out(case):
    assert min(p_values(*moved(*CASES[case], sampler=toward_the_middle))) < LEAST_P


def test_an_update_moves():
    """Under a continuous density an update never stays where it is: the slice has more points than one."""
    rng = np.random.default_rng(2)
    before = NORMAL.draw(300, rng)
    assert all(slice_sample(NORMAL.log, t, rng, width=9.0) != t for t in before)


def test_an_update_of_a_narrow_peak_takes_few_evaluations():
    """Rejected points cut the interval: about 2 log(width / sd) of them, not width / sd."""
    counted = []

    def target(t):
        counted.append(t)
        assert len(counted) < 4000, "the interval does not shrink"
        return -0.5 * (t / 1e-9) ** 2

    rng = np.random.default_rng(3)
    t = 0.0
    for _ in range(40):
        t = slice_sample(target, t, rng)
    assert 0 < abs(t) < 1e-8


def test_steps_out_are_limited_in_all():
    """With a flat target an interval of `max_steps` widths is found, with one evaluation fewer than that."""
    for max_steps in (1, 2, 3, 10, 20):
        ends, seen = [], []
        for seed in range(400):
            points = []
            rng = np.random.default_rng(seed)
            t = slice_sample(lambda t, p=points: p.append(t) or 0.0, 5.0, rng, max_steps=max_steps)
            seen.append(len(points) - 2)  # all but the present value and the new one
            ends.append(t - 5.0)
        assert set(seen) == {max_steps - 1}
        assert max_steps * 0.8 < np.max(ends) - np.min(ends)
        assert np.abs(ends).max() < max_steps
        assert abs(np.mean(ends)) < 4.5 * max_steps / np.sqrt(6 * 400)  # the sum of two: uniform place, uniform draw


def test_a_step_out_ends_at_the_first_end_below_the_level():
    """An interval of one width where both ends lie outside the slice, whatever lies beyond."""
    asked = []

    def target(t):
        asked.append(t)
        return 0.0 if abs(t) < 0.01 or abs(t) > 3.0 else -np.inf

    slice_sample(target, 0.0, np.random.default_rng(0), width=1.0)
    assert max(np.abs(asked)) < 1.0


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, DiagonalGaussian(missing=missing)) for name in ("mean_strength", "rate") for missing in (False, True)]
    + [(name, Gaussian(mean=30.0)) for name in Gaussian.hyper]
    + [("scale", ZeroMeanGaussian())],
)
def test_the_evidence_along_a_hyper_parameter_is_that_of_the_family(name, family):
    """What is computed once gives the same draws, and differs from the evidence of the clusters by a constant."""
    given = family
    family, n, S = clusters_of_rows(family)
    evidence = family._evidence_along(name, n, S)
    gap = [family._at_factor(name, t).total_log_marginal(n, S) - evidence(t) for t in (-4.0, -1.0, 0.0, 0.3, 2.0)]
    assert np.ptp(gap) < 1e-9 * abs(gap[0])
    drawn = family.update_hyper(n, S, np.random.default_rng(1), names=[name])

    class Plain(type(given)):
        _evidence_from = Family._evidence_from

    plain = clusters_of_rows(Plain(**given.get_params()))[0]
    plain = plain.update_hyper(n, S, np.random.default_rng(1), names=[name])
    np.testing.assert_allclose(getattr(drawn, name), getattr(plain, name), rtol=1e-12)
    assert drawn.hyper_factors_[name] != 1.0


def test_the_evidence_along_a_hyper_parameter_of_a_table_is_that_of_its_part():
    """Parts that do not have the hyper-parameter are left out, and parts with holes count their own rows."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(90, 3)), rng.poisson(3.0, 90), rng.integers(0, 4, (90, 2))])
    X[:20, 1:3], X[30:40, 3] = np.nan, np.nan
    parts = [(DiagonalGaussian(), (0, 1, 2)), (Poisson(), (3,)), (Categorical(), (4, 5))]
    data = Dataset(X, Columns(parts))
    n, S = data.statistics(np.repeat([0, 1, 2], 30), 3)
    family = data.family.fit_hyper(n, S)
    assert len(family.hyper) >= 4
    for name in filter(lambda name: not family.factor_shape(name), family.hyper):
        evidence = family._evidence_along(name, n, S)
        gap = [family._at_factor(name, t).total_log_marginal(n, S) - evidence(t) for t in (-1.0, 0.0, 0.3, 2.0)]
        assert np.ptp(gap) < 1e-9 * (1.0 + abs(gap[0])), name


def test_an_evidence_that_is_not_finite_is_told_by_the_family():
    family, n, S = clusters_of_rows()
    S[1, 5:] = -1e9  # sums of squares below zero
    with pytest.raises(FloatingPointError, match="the posterior rate of cluster 1 is not finite and positive"):
        family.update_hyper(n, S, np.random.default_rng(1))


def clusters_of_rows(family=None):
    """Return a family that has learned once, and three clusters of rows about other places than the prior's."""
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(60, 5)) + 4.0 * np.repeat(np.eye(3, 5), 20, axis=0), family or DiagonalGaussian())
    n, S = data.statistics(np.repeat([0, 1, 2], 20), 3)
    return data.family.update_hyper(n, S, np.random.default_rng(0)), n, S
