"""Kernels tell whether their steps draw labels, families whether their clusters are compiled; nobody guesses."""

import re
from pathlib import Path

import numpy as np
import pytest

from expfam import Categorical, DirichletProcess, MixtureModel, Poisson
from expfam.families.base import Family
from expfam.samplers import (
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    SparseVariational,
    StochasticEM,
    UncollapsedGibbs,
    UpdateHyper,
)

ROOT = Path(__file__).resolve().parents[3]
HARD = [CollapsedGibbs(), UncollapsedGibbs(), StochasticEM(), Cycle(UpdateHyper(), CollapsedGibbs())]
SOFT = [ExpectationMaximization(), SparseVariational()]


@pytest.mark.parametrize("kernel", [*HARD, *SOFT])
def test_kernels_of_soft_labels_make_no_draws(kernel):
    X = np.array([[3.0], [4.0], [5.0], [6.0]])
    state = kernel.init(MixtureModel(Poisson(), DirichletProcess()), X, seed=0)
    seen = []
    for _ in range(60):
        kernel.step(state)
        seen.append(tuple(state.partition))
    assert kernel.makes_draws == (kernel in HARD)
    assert (len(set(seen[30:])) > 1) == kernel.makes_draws  # soft labels have settled by then


def test_a_family_is_compiled_where_it_has_components_of_its_own():
    class Plain(Family):
        """Without a method that is not needed."""

        def log_marginal(self, n, S):
            return np.zeros(len(n))

        def sufficient_statistics(self, X):
            return X

    assert Poisson().is_compiled
    assert Categorical().is_compiled
    assert not Plain().is_compiled
    assert ("compiled" in Poisson().capabilities, "compiled" in Plain().capabilities) == (True, False)


def test_nobody_guesses():
    guesses = re.compile(
        r"\.components is (not )?Family\.components|\"compiled\" (not )?in |isinstance\(\w+, ExpectationState"
    )
    sources = [path for top in ("expfam", "samplers", "plugins") for path in (ROOT / top).rglob("*.py")]
    found = [path.name for path in sources if guesses.search(path.read_text(encoding="utf-8"))]
    assert found == ["base.py"]
