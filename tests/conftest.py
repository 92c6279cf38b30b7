"""The tests are of the installed package; the checkout's own folder expfam/ is only a part of it."""

import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = (  # files that take the most time, in this order: begun last, one of them would keep a single process busy
    "test_kernel_laws.py",
    "test_metropolis.py",
    "test_exact_posterior.py",
    "test_split_merge_exact.py",
    "test_tiny_data.py",
    "test_compositions.py",
    "test_plugin_lifecycle.py",
    "test_family_laws.py",
    "test_geweke.py",
    "test_docs.py",
    "test_proposal_int8.py",
    "test_topic_chunks.py",
    "test_cluster_moves.py",
    "test_scaffold.py",
    "test_grouped_gibbs.py",
    "test_estimator_checks.py",
    "test_forecast_peak.py",
    "test_chunks.py",
    "test_tuning.py",
    "test_topic_gibbs.py",
    "test_grouped_chunks.py",
    "test_killed.py",
)
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]


def pytest_configure(config):
    """Files are given to processes in our order; pytest-xdist would put those with few tests last, however long."""
    missing = [name for name in LONGEST if not Path(__file__).with_name(name).exists()]
    if missing:
        raise pytest.UsageError(f"{__file__}: LONGEST names {missing}, which do not exist: put the new names there")
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """The longest files first."""
    place = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONGEST)))


@pytest.fixture
def default_interrupt():
    """Ctrl-C heard as usual: shells let the processes that they start in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
