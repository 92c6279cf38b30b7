"""The tests are of the installed package; the checkout's own folder expfam/ is only a part of it."""

import gc
import os
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
    "dask/test_dask_engine.py",
)
SHARES = {  # tests of many long cases: of each n cases one runs always, and all of them with the slow ones
    "benchmarks/test_report.py::test_every_script_starts_in_a_process_of_its_own": 3,
    "cli/test_known.py::test_links_of_a_column_of_text_or_with_empty_cells": 3,
    "estimators/test_audit.py::test_the_size_of_a_file_does_not_depend_on_the_number_of_rows": 4,
    "dask/test_dask_lost_results.py::test_labels_of_a_mixture_are_made_again": 2,
    "estimators/test_checks.py::test_scikit_learn": 3,
    "estimators/test_columns.py::test_every_sampler_finds_the_clusters_of_a_table_with_holes": 3,
    "estimators/test_dominance.py::test_a_default_fit_is_not_below_a_simple_partition": 3,
    "estimators/test_grouped_endings.py::test_default_fits_are_not_below_simple_partitions": 4,
    "estimators/test_known_doubts.py::test_plain_classes_are_not_said_to_have_parts": 3,
    "estimators/test_known_doubts.py::test_rows_with_wrong_classes_are_listed": 3,
    "estimators/test_missing_values.py::test_every_sampler_finds_clusters_in_data_with_holes": 3,
    "estimators/test_whole_numbers.py::test_few_rows_have_one_answer": 2,
    "evaluation/test_certificate.py::test_a_table_has_a_certificate": 2,
    "exactness/test_admixture_certificate.py::test_a_wrong_sampler_fails": 3,
    "exactness/test_admixture_certificate.py::test_right_samplers_pass": 3,
    "exactness/test_certificate.py::test_a_wrong_sampler_fails_and_its_twin_passes": 4,
    "exactness/test_certificate.py::test_right_samplers_pass": 5,
    "exactness/test_columns.py::test_uncollapsed_steps_keep_the_posterior": 3,
    "exactness/test_exact_posterior.py::test_metropolis": 3,
    "exactness/test_frozen_moves.py::test_a_given_number_of_components": 2,
    "exactness/test_frozen_moves.py::test_each_law_is_exact_with_sweeps": 2,
    "exactness/test_frozen_moves.py::test_visits_are_those_of_the_posterior": 3,
    "exactness/test_geweke.py::test_joint_distribution": 3,
    "exactness/test_kernel_laws.py::test_exact_kernels_keep_the_laws": 3,
    "exactness/test_known.py::test_chains_visit_the_allowed_partitions_by_their_posterior": 3,
    "exactness/test_reversed.py::test_a_backward_sweep_has_the_matrix_of_the_reversal": 3,
    "exactness/test_shards.py::test_visits_of_parts": 3,
    "exactness/test_slices.py::test_a_cycle_with_collapsed_sweeps_is_exact": 2,
    "exactness/test_slices.py::test_visits_are_those_of_the_posterior": 3,
    "families/test_von_mises.py::test_chains_visit_partitions_as_often_as_the_law_says": 2,
    "families/test_von_mises_fisher.py::test_chains_visit_partitions_as_often_as_the_law_says": 3,
    "forecast/test_peak.py::test_so_does_that_of_other_models": 3,
    "robustness/test_containers_of_counts.py::test_dense_and_csr_counts_give_the_same_chain": 3,
    "robustness/test_killed.py::test_every_kernel_goes_on_from_any_step": 3,
    "robustness/test_tiny_data.py::test_few_rows_are_served": 3,
    "samplers/collapsed/test_metropolis.py::test_each_update_is_reversible": 3,
    "samplers/grouped/test_gibbs.py::test_clusters_are_visited_by_their_posterior": 2,
    "samplers/nonparametric/test_group_moves.py::test_a_mistake_is_seen": 2,
    "samplers/nonparametric/test_group_moves.py::test_partitions_of_rows_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_groups.py::test_partitions_of_rows_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_reference.py::test_a_mistake_is_seen": 3,
    "samplers/nonparametric/test_reference.py::test_partitions_are_visited_by_their_probability": 4,
    "samplers/nonparametric/test_topic_moves.py::test_a_mistake_is_seen": 2,
    "samplers/nonparametric/test_topic_moves.py::test_partitions_of_tokens_are_visited_by_their_probability": 3,
    "samplers/nonparametric/test_topics.py::test_partitions_of_tokens_are_visited_by_their_probability": 3,
    "samplers/proposals/test_hash.py::test_updates_are_reversible_on_all_partitions": 3,
    "samplers/proposals/test_int8.py::test_chain_visits_partitions_as_the_posterior_does": 3,
    "samplers/proposals/test_int8.py::test_each_update_is_reversible": 3,
    "samplers/split_merge/test_exact.py::test_a_move_is_invariant_and_reversible": 3,
    "samplers/split_merge/test_exact.py::test_moves_have_the_transition_matrix_of_the_reference": 3,
    "samplers/test_compositions.py::test_every_cell": 3,
    "samplers/variational/test_cluster_moves.py::test_no_step_lowers_the_bound": 3,
    "structures/test_merge_queue.py::test_longer_runs": 4,
    "structures/test_min_hash.py::test_splits_happen_as_often_as_they_should": 3,
}
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != TESTS.parent]
# Threads of scikit-learn's OpenMP, and those of OpenBLAS, sleep while they wait. Spinning, they take the core from the
# other process of the tests: up to three times the CPU time of the same work. Both libraries read this when they are
# loaded, after this file. OpenBLAS spins for so many powers of two of cycles, a tenth of a second if nothing is said.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


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


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The collector of cycles rests, and leaves the tests alone later: it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items):
    """The longest files first; of tests in `SHARES` most cases are slow ones."""
    place = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.relative_to(TESTS).as_posix(), len(LONGEST)))
    seen = Counter()
    for item in items:
        name = f"{item.path.relative_to(TESTS).as_posix()}::{getattr(item, 'originalname', item.name)}"
        share, case = SHARES.get(name, 1), seen[name]
        if (case + case // share) % share:  # another place in each n: a fixed one would take one value of a parameter
            item.add_marker("slow")
        seen[name] += 1


@pytest.fixture(autouse=True)
def registered_classes(monkeypatch):
    """What a test registers is gone after it: a later test of the same process lists the plugins."""
    from expfam.plugins import registry  # not before `sys.path` is without the checkout

    monkeypatch.setattr(registry._registry, "registered", dict(registry._registry.registered))


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures that a test opens are closed after it: pyplot warns of more than twenty, whichever test opened them."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def is_slow(request):
    """Whether the test belongs to the slow run, in which chains are longer."""
    return request.node.get_closest_marker("slow") is not None


@pytest.fixture
def default_interrupt():
    """Ctrl-C heard as usual: shells let the processes that they start in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
