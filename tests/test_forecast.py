"""The memory that is forecast is near what a fit takes, and a fit beyond the limit does not begin."""

import subprocess
import sys

import numpy as np
import pytest

from expfam import Dataset, Gaussian, Mixture, Poisson
from expfam.errors import ResourceError
from expfam.forecast import check_memory, forecast_memory, forecast_sizes, format_bytes, parse_bytes

MEASURE = """
import sys
from pathlib import Path
import numpy as np
from scipy import sparse
from expfam import Dataset, Mixture, load_family
from expfam.forecast import forecast_memory
name, N, V, K = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
if name in ("gaussian", "gaussian_diag"):
    X = rng.normal(size=(N, V))
else:
    X = sparse.random_array((N, V), density=20 / V, rng=rng, format="csr")
    X.data = np.ceil(3 * X.data)
Mixture(name, 2, n_steps=1, n_warmup=0, random_state=0).fit(X[:50])
def resident(field):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(field))
    return 1024 * int(line.split()[1])
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
mixture = Mixture(name, K, n_steps=1, n_warmup=0, start="random", random_state=0).fit(X)
print(resident("VmHWM") - before, forecast_memory(Dataset(X, load_family(name)), n_components=K).beside_data)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "N", "V", "K"),
    [("multinomial", 30_000, 6000, 2000), ("gaussian", 20_000, 40, 1500), ("gaussian_diag", 200_000, 30, 600)],
)
def test_the_forecast_is_near_the_measured_peak(name, N, V, K):
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, name, str(N), str(V), str(K)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    measured, forecast = map(float, done.stdout.split())
    assert measured <= 1.25 * forecast
    assert forecast <= 3.0 * measured + 150e6  # blocks of fixed size are counted whole


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
    # 28 bytes a row, and 4 for each kept partition: 50 of them, 5 of many rows
    assert small.labels == 1000 * (28 + 4 * 50)
    assert forecast_sizes("gaussian", n_rows=10**6, n_features=10, n_components=10).labels == 10**6 * (28 + 4 * 5)


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


@pytest.mark.parametrize("text", ["", "GB", "-1", "4XB", "nan"])
def test_bad_sizes(text):
    with pytest.raises(ValueError):
        parse_bytes(text)
