"""The vectorised inner loops against exact arithmetic, in every instance that this machine can run."""

import json
import math
import os
import re
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from instruction_sets import SETS, output_under
from scipy import stats
from source_tree import ROOT, TESTS

from expfam.structures.simd.probe import add_row, dot, instruction_set, log, log_rising, pick, softmax_weights

EPS = 2.0**-52
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 130, 1000)  # around vectors and blocks of 64


# ---- the oracle ------------------------------------------------------------------------------------------------------

BERNOULLI = [Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66), Fraction(-691, 2730)]
BERNOULLI += [Fraction(7, 6), Fraction(-3617, 510), Fraction(43867, 798), Fraction(-174611, 330)]
LIFT = 60  # the series below is cut at an error of (2k)! / (2 pi z)^(2k): 1e-27 from z = 60 on


def log_gamma(z):
    """Log gamma of a positive Decimal, to 25 digits: recurrence up to 60, then Stirling's series."""
    product = Decimal(1)
    while z < LIFT:
        product *= z
        z += 1
    half_log_2pi = Decimal("0.91893853320467274178032973640561763986139747363778")
    result = (z - Decimal("0.5")) * z.ln() - z + half_log_2pi - product.ln()
    power = z
    for k, b in enumerate(BERNOULLI, start=1):
        result += Decimal(b.numerator) / (Decimal(b.denominator) * 2 * k * (2 * k - 1) * power)
        power *= z * z
    return result


def exact(function, *arguments):
    """Value of a function of Decimals at doubles, rounded once."""
    with localcontext() as context:
        context.prec = 50
        return float(function(*(Decimal(float(a)) for a in arguments)))


def rising(z, m):
    return log_gamma(z + m) - log_gamma(z)


def test_the_oracle_itself():
    with localcontext() as context:
        context.prec = 50
        pi = Decimal("3.14159265358979323846264338327950288419716939937510")
        assert abs(log_gamma(Decimal("0.5")) - pi.ln() / 2) < Decimal("1e-24")
        for n in (1, 2, 5, 30, 100):
            assert abs(log_gamma(Decimal(n)) - Decimal(math.factorial(n - 1)).ln()) < Decimal("1e-24")


# ---- log -------------------------------------------------------------------------------------------------------------


def positive_numbers(size=4000):
    rng = np.random.default_rng(1)
    wide = np.exp(rng.uniform(-700, 700, size))
    near_one = 1 + rng.uniform(-1, 1, size) * 10.0 ** rng.uniform(-16, -0.5, size)
    edges = [2.0**-1022, 1.7976931348623157e308, 1.0, 0.5, 2.0, math.sqrt(2), math.sqrt(0.5)]
    edges += [np.nextafter(e, 0) for e in edges[2:]] + [np.nextafter(e, 9) for e in edges[2:]]
    return np.concatenate([wide, near_one, edges])


def test_log_is_within_one_ulp():
    x = positive_numbers()
    expected = np.array([exact(Decimal.ln, value) for value in x])
    # one ulp of the result plus the half that rounding the exact value may cost
    assert (np.abs(log(x) - expected) <= 1.5 * np.spacing(np.abs(expected))).all()
    assert log(np.array([1.0]))[0] == 0.0


@pytest.mark.parametrize("n", LENGTHS)
def test_log_of_any_length_is_elementwise(n):
    x = positive_numbers()[:n]
    np.testing.assert_array_equal(log(x), [log(x[i : i + 1])[0] for i in range(n)])


def test_empty_arrays():
    assert log(np.empty(0)).shape == (0,)
    assert log_rising(np.empty(0), 1.0).shape == (0,)
    assert dot(np.empty(0), np.empty(0)) == 0.0


# ---- log of a rising factorial ---------------------------------------------------------------------------------------


def rising_bound(z, m, lift):
    """Error allowed to log_rising1: four ulp of each of its terms, and the first term left out of Stirling's series."""
    correction = EPS * (32 + 4 * 16 * math.log1p(m / z)) if lift else 0.0  # a product of 16 quotients, and its log
    z = z + 16 if lift else z
    terms = m * abs(math.log(z)) + (z + m) * math.log1p(m / z) + m
    truncation = (z**-9.0 - (z + m) ** -9.0) / 1188  # 1.2e-14 at z = 16
    return 4 * EPS * terms + correction + truncation + 2 * EPS / z


SMALL = [1e-8, 1e-3, 0.01, 0.1, 0.5, 1.0, 1.5, 3.25, 7.0, 15.999]
LARGE = [16.0, 17.5, 40.0, 333.3, 1e4, 1e6, 1e9, 1e12]


@pytest.mark.parametrize("m", [0.0, 1e-6, 0.25, 1.0, 2.0, 5.0, 17.0, 100.5, 1e4, 1e7])
@pytest.mark.parametrize("zs", [SMALL, LARGE, [*SMALL, *LARGE]], ids=["small", "large", "mixed"])
def test_log_rising_against_exact_log_gamma(zs, m):
    z = np.array(zs)
    expected = np.array([exact(rising, value, m) for value in z])
    bounds = np.array([rising_bound(value, m, min(zs) < 16) for value in z])
    error = np.abs(log_rising(z, m) - expected)
    assert (error <= bounds).all(), (z[error > bounds], error[error > bounds], bounds[error > bounds])


def test_log_rising_of_whole_numbers_is_a_sum_of_logs():
    z = np.array([0.1, 1.0, 20.0, 1000.5])
    for m in range(12):
        expected = [math.fsum(math.log(value + t) for t in range(m)) for value in z]
        np.testing.assert_allclose(log_rising(z, float(m)), expected, rtol=16 * EPS, atol=64 * EPS * (m + 1))


# ---- sums and weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LENGTHS)
def test_dot_within_the_bound_of_any_order_of_summation(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), rng.normal(size=n)
    expected = float(sum((Fraction(x) * Fraction(y) for x, y in zip(a, b)), Fraction(0)))
    assert abs(dot(a, b) - expected) <= (n + 1) * EPS * np.abs(a * b).sum()


def test_dot_refuses_different_lengths():
    with pytest.raises(ValueError, match="3 and 4"):
        dot(np.ones(3), np.ones(4))


def test_exp_within_its_bound():
    rng = np.random.default_rng(2)
    x = np.concatenate([-np.exp(rng.uniform(-30, np.log(699), 3000)), rng.uniform(-1, 0, 1000), [0.0, -1.0, -700.0]])
    weights = softmax_weights(x)[0]  # the largest is 0, so nothing is subtracted
    for value, weight in zip(x, weights):
        expected = exact(Decimal.exp, value)
        if value > -700:
            assert abs(weight - expected) <= 3 * EPS * expected
    assert weights[-1] == 0.0


@pytest.mark.parametrize("n", LENGTHS)
def test_weights_sums_and_total_agree(n):
    x = np.random.default_rng(n).normal(scale=20, size=n) - 1e4
    weights, sums, total = softmax_weights(x)
    assert weights.shape == (n,)
    assert weights.max() == 1.0
    blocks = [weights[b : b + 64] for b in range(0, n, 64)]
    assert len(sums) == len(blocks)
    np.testing.assert_allclose(sums, [math.fsum(block) for block in blocks], rtol=64 * EPS)
    np.testing.assert_allclose(total, math.fsum(sums), rtol=len(sums) * EPS)
    # x - max is exact to half an ulp of x: an absolute error of the exponent
    expected = [exact(lambda a, b: (a - b).exp(), value, x.max()) for value in x]
    bound = (3 * EPS + np.spacing(np.abs(x - x.max()))) * np.maximum(expected, 1e-300)
    assert (np.abs(weights - expected) <= bound).all()


def test_impossible_clusters_have_weight_zero():
    x = np.full(200, -np.inf)
    x[[3, 70, 199]] = [-5.0, -5.0, -806.0]
    weights, sums, total = softmax_weights(x)
    assert total == 2.0
    np.testing.assert_array_equal(np.flatnonzero(weights), [3, 70])  # 801 nats below the largest is exactly nothing
    np.testing.assert_array_equal(sums, [1.0, 1.0, 0.0, 0.0])


# ---- picks -----------------------------------------------------------------------------------------------------------


def picks(x, uniforms):
    weights, sums, total = softmax_weights(x)
    return np.array([pick(weights, sums, total, u) for u in uniforms])


@pytest.mark.parametrize("n", [1, 2, 5, 64, 65, 150])
def test_pick_inverts_the_distribution_function(n):
    x = np.random.default_rng(n).normal(scale=2, size=n)
    weights, _, total = softmax_weights(x)
    edges = np.cumsum(weights) / total
    uniforms = np.random.default_rng(3).random(3000)
    away = np.abs(uniforms[:, None] - edges).min(axis=1) > 1e-12  # rounding decides within that distance of an edge
    assert away.mean() > 0.99
    expected = np.minimum(np.searchsorted(edges, uniforms, side="right"), n - 1)
    np.testing.assert_array_equal(picks(x, uniforms)[away], expected[away])


@pytest.mark.parametrize("n", [3, 64, 100, 200])
def test_law_of_pick(n):
    x = np.random.default_rng(10 + n).normal(size=n)
    x[n // 3] = -np.inf
    p = np.exp(x - x.max())
    p /= p.sum()
    counts = np.bincount(picks(x, np.random.default_rng(4).random(40_000)), minlength=n)
    assert counts[n // 3] == 0
    kept = p > 0
    assert stats.chisquare(counts[kept], 40_000 * p[kept]).pvalue > 1e-5


LAST = float(np.nextafter(1.0, 0.0))


@pytest.mark.parametrize("n", [1, 5, 64, 65, 128, 129, 300])
@pytest.mark.parametrize("uniform", [0.0, 0.5, LAST])
def test_pick_never_takes_an_impossible_cluster(n, uniform):
    for only in {0, n // 2, n - 1, min(63, n - 1), min(64, n - 1)}:
        x = np.full(n, -np.inf)
        x[only] = -1e6
        assert picks(x, [uniform]) == [only]


@pytest.mark.parametrize("uniform", [0.0, 1e-300, LAST])
def test_pick_at_the_ends_with_impossible_clusters_around(uniform):
    rng = np.random.default_rng(5)
    for _ in range(200):
        n = int(rng.integers(2, 200))
        x = rng.normal(scale=5, size=n)
        x[rng.random(n) < 0.7] = -np.inf
        x[rng.integers(n)] = 0.0
        chosen = picks(x, [uniform])[0]
        possible = np.flatnonzero(np.isfinite(x))
        assert chosen in possible
        if uniform == 0.0:
            assert chosen == possible[0]


# ---- instruction sets ------------------------------------------------------------------------------------------------

INPUTS = """
import json, sys
import numpy as np
from expfam.structures.simd import probe as kernels
rng = np.random.default_rng(6)
x, z = np.exp(rng.uniform(-40, 40, 777)), np.exp(rng.uniform(-5, 12, 777))
scores = rng.normal(scale=30, size=777); scores[::5] = -np.inf
weights, sums, total = kernels.softmax_weights(scores)
picked = [kernels.pick(weights, sums, total, u) for u in rng.random(500)]
print(json.dumps({
    "set": kernels.instruction_set(), "log": kernels.log(x).tolist(), "rising": kernels.log_rising(z, 7.5).tolist(),
    "high": kernels.log_rising(z + 16, 3.0).tolist(), "weights": weights.tolist(), "total": total, "picked": picked,
    "row": kernels.add_row(z, x / x.max(), 0.3).tolist(),
    "dot": [kernels.dot(x[:n] / x.max(), z[:n]) for n in range(1, 80)]}))
"""


def instances(forced):
    """Results of one instance in a process of its own: the choice is made once, when a module is loaded."""
    return json.loads(output_under(forced, INPUTS))


@pytest.fixture(scope="module")
def base():
    return instances("base")


def test_the_base_instance_can_be_forced(base):
    assert base["set"] == "base"


@pytest.mark.parametrize("forced", SETS[1:])
def test_instances_agree(base, forced):
    other = instances(forced)
    assert SETS.index(other["set"]) <= SETS.index(forced)  # never more than was asked for
    if other["set"] != forced:
        pytest.skip(f"this machine has no {forced}")
    # Every entry point stays within its own bound of the exact value, so two of them within twice that.
    np.testing.assert_allclose(other["log"], base["log"], rtol=2 * EPS)
    for name in ("rising", "high"):
        np.testing.assert_allclose(other[name], base[name], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(other["weights"], base["weights"], rtol=6 * EPS)
    np.testing.assert_allclose(other["total"], base["total"], rtol=1000 * EPS)
    np.testing.assert_allclose(other["dot"], base["dot"], rtol=160 * EPS)
    np.testing.assert_allclose(other["row"], base["row"], rtol=2 * EPS)
    assert other["picked"] == base["picked"]  # no uniform of this seed lies within rounding of an edge


def test_rows_are_added():
    rng = np.random.default_rng(8)
    for n in (0, *LENGTHS):
        out, row = rng.normal(size=n), rng.normal(size=n)
        np.testing.assert_allclose(add_row(out, row, -1.5), out - 1.5 * row, rtol=0, atol=8 * EPS)
    masked = add_row(np.zeros(20), np.where(np.arange(20) == 7, -np.inf, 1.0), 2.0)
    np.testing.assert_array_equal(masked, np.where(np.arange(20) == 7, -np.inf, 2.0))
    with pytest.raises(ValueError, match="lengths differ: 3 and 2"):
        add_row(np.ones(3), np.ones(2), 1.0)


# Where every instance of a loop is run in a process of its own, and compared; see instruction_sets.py.
FORCED = {
    "structures/test_kernels.py": "expfam_(dot|log|log_rising|add_row|max|exp_blocks)",
    "families/test_counts.py": "expfam_(count_products_(int|real)|rising_products|add_log_ratio)",
    "families/test_missing_cells.py": "expfam_open_scan",
    "families/test_filtered_scores.py": "expfam_(product_distances|group_tops|radial_bounds|(centred|double|float)_row"
    "|narrow_dot)",
    "families/test_beta.py": "expfam_(beta_\\w+|add_log_ratios)",
    "families/test_von_mises_fisher.py": "expfam_(log_bessel|bessel_ratio|vmf_\\w+)",
    "families/test_gaussian.py": "expfam_((t|sphere|radial|gauss|panel)_scan|sphere_(rest|square)|t_joint|cholesky"
    "|panel_(inv|rot|sq)\\w+|svec_add|scale|merged_(gauss|rates|radial)|data_pairs|datum_growth)",
    "structures/test_finite_cells.py": "expfam_finite_(floats|doubles)",
    "structures/test_exact_sums.py": "expfam_(float|double)_(extremes|terms|squares|hashes)",
    "model/test_label_sums.py": "expfam_label_terms",
    "structures/test_sign_hash.py": "expfam_(sign_\\w+|float_exp_blocks|byte_add_\\w+|entries_add|hamming)",
    "structures/test_min_hash.py": "expfam_icws",
    "structures/test_cover_tree.py": "expfam_(square_distance|tile_\\w+|(box|point)_squares|rows_within)",
    "estimators/test_narrow_rows.py": "expfam_(half|u?int(8|16))_row",
    "samplers/collapsed/test_metropolis.py": "expfam_(byte_scores|float_rows|between|max_float)",
    "structures/test_top_l.py": "top_\\w+",
    "samplers/hierarchy/test_bounded_pairs.py": "expfam_(rate_logs|upper_scores|ward_bounds)",
    "samplers/proposals/test_int8.py": "expfam_(int8_(dots|scores)|add_squares)",
    "samplers/uncollapsed/test_gibbs.py": "expfam_(narrow|tops|near_\\w+|add_scaled|add_near)",
    "samplers/uncollapsed/test_em_few_rows.py": "expfam_(row_(scores|weights)|add_weighed)",
    "samplers/uncollapsed/test_listed_rows.py": "expfam_add_listed",
    "samplers/uncollapsed/test_near_lists.py": "expfam_places_above",
    "samplers/uncollapsed/test_best_scores.py": "expfam_(dot_narrow|centred|products)",
    "samplers/uncollapsed/test_canopy.py": "expfam_(dot_difference|biased_tops|list_scores)",
    "samplers/uncollapsed/test_tree.py": "expfam_((float|sparse)_dots|rises)",
    "structures/test_kmeans.py": "expfam_rows_(nearest|reach|listed)",
    "structures/test_byte_codes.py": "expfam_(largest_entry|coded)",
    "samplers/uncollapsed/test_pruned.py": "expfam_code_bounds",
    "samplers/topics/test_variational.py": "topic_\\w+",
}


def test_every_dispatched_loop_is_forced_somewhere():
    sources = [path for folder in ("structures", "expfam", "samplers") for path in (ROOT / folder).rglob("*.[hp]*")]
    sources = [path for path in sources if path.suffix in (".h", ".pxd", ".pyx")]
    if not sources:
        pytest.skip("no sources beside the tests")
    definition = re.compile(r"^\s*EXPFAM_\w*INSTANCES\(\s*\w+,\s*\w+,\s*(\w+)", re.MULTILINE)
    names = [name for path in sources for name in definition.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 40
    for name in names:
        assert sum(bool(re.fullmatch(pattern, name)) for pattern in FORCED.values()) == 1, name
    for file in FORCED:
        text = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(r"\b(output_under|check_sets_agree)\(", text), file


def test_an_unknown_name_changes_nothing():
    free = {key: value for key, value in os.environ.items() if key != "EXPFAM_ISA"}
    command = [sys.executable, "-c", "from expfam.structures.simd.probe import instruction_set as s; print(s())"]
    names = [
        subprocess.run(command, cwd=sys.prefix, env=env, capture_output=True, text=True, check=True).stdout
        for env in (free, {**free, "EXPFAM_ISA": "sse9"})
    ]
    assert names[0] == names[1]


def test_the_set_in_use_is_known():
    assert instruction_set() in SETS
    if os.environ.get("EXPFAM_ISA") in SETS:
        assert SETS.index(instruction_set()) <= SETS.index(os.environ["EXPFAM_ISA"])
