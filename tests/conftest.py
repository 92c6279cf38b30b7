"""The tests are of the installed package; the checkout's own folder expfam/ is only a part of it."""

import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LONGEST = (  # files that take the most time, in this order: begun last, one of them would keep a single process busy
    "exactness/test_kernel_laws.py",
    "samplers/collapsed/test_metropolis.py",
    "exactness/test_exact_posterior.py",
    "samplers/split_merge/test_exact.py",
    "robustness/test_tiny_data.py",
    "samplers/test_compositions.py",
    "plugins/test_lifecycle.py",
    "families/test_laws.py",
    "exactness/test_geweke.py",
    "package/test_docs.py",
    "samplers/proposals/test_int8.py",
    "estimators/test_topic_chunks.py",
    "samplers/variational/test_cluster_moves.py",
    "plugins/test_scaffold.py",
    "samplers/grouped/test_gibbs.py",
    "estimators/test_checks.py",
    "forecast/test_peak.py",
    "estimators/test_chunks.py",
    "samplers/hierarchy/test_tuning.py",
    "samplers/topics/test_gibbs.py",
    "estimators/test_grouped_chunks.py",
    "robustness/test_killed.py",
    "benchmarks/test_versions.py",
)
SHARES = {  # tests of many long cases: of n, each n-th runs always, and all of them with the slow ones
    "exactness/test_certificate.py::test_a_wrong_sampler_fails_and_its_twin_passes": 4,
    "exactness/test_certificate.py::test_right_samplers_pass": 5,
    "exactness/test_admixture_certificate.py::test_a_wrong_sampler_fails": 3,
    "exactness/test_admixture_certificate.py::test_right_samplers_pass": 3,
    "forecast/test_peak.py::test_so_does_that_of_other_models": 3,
    "samplers/nonparametric/test_group_moves.py::test_a_mistake_is_seen": 2,
    "samplers/nonparametric/test_group_moves.py::test_partitions_of_rows_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_groups.py::test_partitions_of_rows_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_reference.py::test_a_mistake_is_seen": 3,
    "samplers/nonparametric/test_reference.py::test_partitions_are_visited_by_their_probability": 4,
    "samplers/nonparametric/test_topic_moves.py::test_a_mistake_is_seen": 2,
    "samplers/nonparametric/test_topic_moves.py::test_partitions_of_tokens_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_topics.py::test_partitions_of_tokens_are_visited_by_their_probability": 3,
}
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != TESTS.parent]


def pytest_configure(config):
    """Files are given to processes in our order; pytest-xdist would put those with few tests last, however long."""
    missing = [name for name in LONGEST if not (TESTS / name).exists()]
    if missing:
        raise pytest.UsageError(f"{__file__}: LONGEST names {missing}, which do not exist: put the new names there")
    missing = [name for name in SHARES if not has_test(*name.split("::"))]
    if missing:
        raise pytest.UsageError(f"{__file__}: SHARES names {missing}, which do not exist: put the new names there")
    config.option.loadscopereorder = False


def has_test(file, function):
    """Return whether the file of this name has the test."""
    return (TESTS / file).exists() and f"def {function}(" in (TESTS / file).read_text(encoding="utf-8")


def pytest_collection_modifyitems(items):
    """The longest files first; of tests in `SHARES` most cases are slow ones."""
    place = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.relative_to(TESTS).as_posix(), len(LONGEST)))
    seen = Counter()
    for item in items:
        name = f"{item.path.relative_to(TESTS).as_posix()}::{getattr(item, 'originalname', item.name)}"
        if seen[name] % SHARES.get(name, 1):
            item.add_marker("slow")
        seen[name] += 1


@pytest.fixture
def default_interrupt():
    """Ctrl-C heard as usual: shells let the processes that they start in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
