"""Compiled components of Bernoulli and negative binomial columns: the law, on dense and sparse rows."""

import numpy as np
import pytest
from instruction_sets import check_sets_agree, numbers_of_families
from scipy import sparse

from expfam import Dataset
from expfam.errors import DataError, SupportError
from expfam.families.components import Components
from expfam.families.generic import GenericComponents
from expfam.families.trials.bernoulli import Bernoulli
from expfam.families.trials.geometric import Geometric
from expfam.families.trials.negative_binomial import NegativeBinomial
from expfam.plugins.conformance import parametrize_with_checks

N, V, K = 80, 41, 9
RNG = np.random.default_rng(8)
BINARY = (RNG.random((N, V)) < RNG.random((3, V))[np.arange(N) % 3] ** 2).astype(np.float64)
COUNTS = RNG.poisson(RNG.gamma(0.5, 4.0, (3, V))[np.arange(N) % 3]).astype(np.float64)
COUNTS[4, 3] = 700.0
LABELS = RNG.integers(0, K, N).astype(np.int32)

CASES = {
    "bernoulli": (Bernoulli(), BINARY),
    "bernoulli_csr": (Bernoulli(a=0.3, b=2.0), sparse.csr_array(BINARY)),
    "bernoulli_int": (Bernoulli(a=1e-6, b=50.0), BINARY.astype(np.int64)),
    "negative_binomial": (NegativeBinomial(r=2.5), COUNTS),
    "negative_binomial_csr": (NegativeBinomial(r=0.2, a=0.1, b=30.0), sparse.csr_array(COUNTS).astype(np.int32)),
    "negative_binomial_auto": (NegativeBinomial(r="auto"), COUNTS.astype(np.float32)),
    "geometric": (Geometric(), COUNTS),
}
# with few successes and few data, as with the size of "auto" here, the law that posteriors have modes does not apply
LAWS = [(family, X[:40, :6]) for name, (family, X) in CASES.items() if not name.endswith("auto")]


class Plain:
    """The same law through the components that serve any NumPy family."""

    def __init__(self, family):
        self.family, self.name = family, family.name

    def components(self, data, capacity, *, layout="features"):
        return GenericComponents(self.family, data, capacity)


@parametrize_with_checks(LAWS)
def test_laws(family, check):
    check(family)


@pytest.mark.parametrize("layout", ["features", "clusters"])
@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_the_law_after_many_calls(case, layout):
    family, X = CASES[case]
    data, rng, labels = Dataset(X, family), np.random.default_rng(1), LABELS.copy()
    found = Components(data.family, data, K, layout=layout)
    found.refresh(labels)
    for i in rng.integers(0, N, 1000):
        found.remove(i, labels[i])
        labels[i] = rng.integers(0, 3) if rng.random() < 0.9 else rng.integers(0, K)
        found.add(i, labels[i])
    for k, l in ((5, 6), (0, 1)):
        found.absorb(k, l)
        labels[labels == l] = k
    found.swap(0, 4)
    labels = np.where(labels == 0, 4, np.where(labels == 4, 0, labels)).astype(np.int32)
    expected = Components(Plain(data.family), data, K)
    expected.refresh(labels)
    for mine, theirs in zip(found.export(), expected.export()):
        np.testing.assert_array_equal(mine, theirs)
    slots = np.array([8, 0, 3])
    for call in (
        lambda c: c.log_predictive_block(0, N, K),
        lambda c: np.array([c.log_predictive(i, slots) for i in range(N)]),
        lambda c: np.array([c.log_predictive_self(i, labels[i]) for i in range(N)]),
        lambda c: c.log_marginal(),
        lambda c: c.log_merged(4, np.array([0, 2, 5, 8])),
    ):
        np.testing.assert_allclose(call(found), call(expected), rtol=1e-11, atol=1e-9)


def test_more_clusters_than_a_tile_are_scored():
    data = Dataset(COUNTS, NegativeBinomial(r=1.5))
    many = Components(data.family, data, 1100)
    many.refresh((np.arange(N) * 13 % 1100).astype(np.int32))
    one_by_one = many.log_predictive(7, np.arange(1100))
    np.testing.assert_allclose(many.log_predictive(7), one_by_one, rtol=1e-12)


@pytest.mark.parametrize("case", ["bernoulli", "negative_binomial"])
def test_the_wrong_member_is_refused_and_nothing_changes(case):
    family = CASES[case][0]
    data = Dataset(np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]]), family)
    components = Components(data.family, data, 2)
    components.add(2, 0)
    components.add(0, 0)
    before = components.export()
    components.remove(2, 0)
    components.add(2, 0)
    with pytest.raises(SupportError, match="removing what is not there"):
        components.subtract(1, 0)
    components.remove(2, 0)
    components.remove(0, 0)
    with pytest.raises(SupportError, match="removing what is not there"):
        components.remove(0, 0)
    components.add(1, 0)
    for call in (components.remove, components.log_predictive_self):
        with pytest.raises(SupportError, match="removing what is not there"):
            call(0, 0)
    if case == "bernoulli":  # a zero where all members have a one
        components.add(2, 1)
        components.add(2, 1)
        with pytest.raises(SupportError, match="removing what is not there"):
            components.remove(1, 1)
    assert before[0].sum() == 2.0
    with pytest.raises(DataError, match="cannot read"):
        components.owner.set_data(Dataset(BINARY, family))


def test_one_ends_what_many_began():
    """A slot that is empty again has exactly the scores of one that was never used."""
    for family, X in CASES.values():
        data = Dataset(X, family)
        components = Components(data.family, data, 2)
        fresh = components.log_predictive(3)
        for i in range(N):
            components.add(i, 0)
        for i in range(N):
            components.remove(i, 0)
        np.testing.assert_array_equal(components.log_predictive(3), fresh)


def test_the_size_of_a_negative_binomial_is_found_by_moments():
    rng = np.random.default_rng(0)
    X = rng.negative_binomial(3.0, 0.2, (20_000, 4))
    assert NegativeBinomial("auto").bind(X).r == pytest.approx(3.0, rel=0.05)
    assert NegativeBinomial("auto").bind(sparse.csr_array(X)).r == NegativeBinomial("auto").bind(X).r
    assert NegativeBinomial("auto").bind(np.full((5, 2), 3)).r == 1e4  # less spread than a Poisson family
    assert NegativeBinomial("auto").bind(X).with_hyper(a=1.0).r == NegativeBinomial("auto").bind(X).r


def test_an_unknown_layout_is_refused():
    data = Dataset(BINARY, Bernoulli())
    with pytest.raises(ValueError, match='layout must be "features" or "clusters"; got \'rows\''):
        data.family.components(data, 3, layout="rows")


# ---- instruction sets ------------------------------------------------------------------------------------------------


def test_instruction_sets_agree(tmp_path):
    families = 'load_family("bernoulli"), load_family("negative_binomial", r=2.0), load_family("geometric")'
    code = numbers_of_families("load_family", families, "X = (rng.random((60, V)) < 0.3).astype(float)")
    check_sets_agree(code, tmp_path)
