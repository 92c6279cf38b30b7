"""A column whose squares no float holds is refused with a line that mends it."""

import re

import numpy as np
import pandas as pd
import pytest

from expfam import BayesianHierarchy, GroupedMixture, Mixture
from expfam.families.support import ScaleError

FITS = {
    "mixture": lambda X: Mixture(random_state=0).fit(X),
    "hierarchy": lambda X: BayesianHierarchy("gaussian_diag").fit(X),
    "groups": lambda X: GroupedMixture("gaussian_diag", 2, random_state=0, n_steps=5).fit(X, groups=np.arange(60) % 3),
}


def rows(scale):
    X = np.random.default_rng(0).gamma(2.0, size=(60, 2))
    X[:30] += 20.0
    X[:, 1] *= scale
    return X


def line_of(message):
    (line,) = re.findall(r"write (.*?), or where", message)
    return line


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("scale", [1e300, 1e-300, 1e160, 1e20])
def test_the_line_for_an_array_works(fit, scale):
    X = rows(scale)
    with pytest.raises(ScaleError, match="column 1 has a standard deviation of") as error:
        FITS[fit](X)
    exec(line_of(str(error.value)), {"numpy": np, "X": X})
    assert FITS[fit](X).labels_.shape == (60,)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_the_line_for_a_frame_names_the_column(scale):
    df = pd.DataFrame(rows(scale), columns=["height", "mass"])
    with pytest.raises(ScaleError, match="column 'mass' has a standard deviation of") as error:
        Mixture(random_state=0).fit(df)
    line = line_of(str(error.value))
    assert line.startswith("df['mass'] /= ")
    exec(line, {"numpy": np, "df": df})
    assert len(np.unique(Mixture(random_state=0).fit(df).labels_)) > 1


def test_the_figure_is_told_where_a_float_holds_its_square():
    with pytest.raises(ScaleError, match=r"standard deviation of 1\.\d+e\+21;"):
        Mixture(random_state=0).fit(rows(1e20))
    with pytest.raises(ScaleError, match="standard deviation of a size whose square no float holds"):
        Mixture(random_state=0).fit(rows(1e300))
