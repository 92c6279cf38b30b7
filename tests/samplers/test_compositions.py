"""Every family with every prior and every sampler: what the page says goes, goes, and what it refuses is refused."""

from pathlib import Path

import numpy as np
import pytest
from compositions import FAMILIES, SAMPLERS, WEIGHTS, data_of, page, refusal, tried

from expfam import MixtureModel, samplers
from expfam.errors import CapabilityError
from expfam.samplers import ExpectationMaximization, SparseVariational

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compositions.md"
CLIMBS = (ExpectationMaximization, SparseVariational)  # whose objective never falls
pytestmark = pytest.mark.filterwarnings("ignore::expfam.errors.DataWarning", "ignore:.*CoverTree.*")


def test_the_page_is_what_the_code_says():
    assert PAGE.read_text() == page(), "run `python tests/support/compositions.py > docs/compositions.md`"


@pytest.mark.parametrize("title", SAMPLERS)
def test_a_printed_title_makes_the_kernel_that_is_run(title):
    assert eval(title, vars(samplers) | {name: getattr(samplers, name) for name in samplers.__all__}) == SAMPLERS[title]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("title", SAMPLERS)
def test_every_cell(title, family):
    sampler, data = tried(title), data_of(family)
    for weights in WEIGHTS.values():
        model = MixtureModel(data.family, weights)
        if refusal(sampler, data, weights) is not None:
            with pytest.raises(CapabilityError):
                sampler.init(model, data, seed=0)
            continue
        state = sampler.init(model, data, seed=0)
        objectives = [sampler.step(state).objective for _ in range(4)]
        assert np.isfinite(objectives).all()
        assert len(state.labels) == data.n_rows
        state.check()  # statistics are those of the labels, and all of it adds up
        if isinstance(sampler, CLIMBS):
            assert (np.diff(objectives) >= -1e-5 * np.abs(objectives[1:])).all(), objectives
