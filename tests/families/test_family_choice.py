"""Choice of a family of numbers by evidence: what it passes over, and what it does not hide."""

import numpy as np
import pandas as pd
import pytest

from expfam import Columns, DiagonalGaussian, LogNormal, Mixture
from expfam.errors import DataError
from expfam.families.columns.kinds import choice
from expfam.families.columns.kinds.choice import count_role, positive_role
from expfam.families.columns.roles import ColumnRole
from expfam.families.support import ScaleError

KINDS = pd.Series(["a", "b"] * 501)


@pytest.mark.parametrize(
    ("role", "values"),
    [
        (count_role, np.arange(100.0) * 1e16),
        (count_role, np.append(np.zeros(50), np.full(50, 1e300))),
        (positive_role, np.arange(1.0, 100.0) * 1e-20),
        (positive_role, np.arange(1.0, 100.0) * 1e290),
    ],
)
def test_a_family_whose_range_the_column_leaves_is_passed_over(role, values):
    assert role(ColumnRole("x"), values).family == "lognormal"
    with pytest.raises(ScaleError, match="has a standard deviation of"):
        DiagonalGaussian().bind(values[:, None])


def test_the_scale_of_logarithms_counts_for_the_lognormal():
    with pytest.raises(ScaleError, match="lognormal"):
        LogNormal().bind(np.tile([1.0, 1.0 + 2.3e-16, 1.0 + 4.5e-16], 20)[:, None])


@pytest.mark.parametrize("role", [count_role, positive_role])
@pytest.mark.parametrize("name", ["gaussian_diag", "lognormal"])
def test_other_errors_of_the_data_are_not_hidden(role, name, monkeypatch):
    def broken(family, values):
        if family.name == name:
            raise DataError("a fault")
        return 0.0

    monkeypatch.setattr(choice, "column_evidence", broken)
    with pytest.raises(DataError, match="a fault"):
        role(ColumnRole("x"), np.arange(1.0, 100.0))


def test_a_column_that_no_family_can_scale_is_refused_by_name_at_the_fit():
    frame = pd.DataFrame({"x": np.tile([1.0, 1.0 + 2.3e-16, 1.0 + 4.5e-16], 20), "kind": KINDS[:60]})
    assert Columns.from_frame(frame).roles[0]["family"] == "gaussian_diag"
    with pytest.raises(DataError, match=r"'x'.*has a standard deviation of 1\.8.*e-16"):
        Mixture(n_steps=2, random_state=0).fit(frame)


def test_a_column_with_a_few_values_beside_one_is_a_number():
    frame = pd.DataFrame({"x": np.append(np.ones(1000), [1.5, 2.5]), "kind": KINDS})
    assert Columns.from_frame(frame).roles[0]["family"] == "gaussian_diag"
    assert Mixture(n_components=2, n_steps=2, random_state=0).fit(frame).n_components_ == 2
