"""Numbers that are written in text."""

import pandas as pd
import pytest

from expfam import Columns
from expfam.errors import DataError
from expfam.frames.numerals import as_number


@pytest.mark.parametrize("text", ["1" * 400, "-" + "1" * 400, "1" * 5000, "1e309", "inf", "-inf", "nan"])
def test_what_no_float_holds_is_no_finite_number(text):
    assert as_number(text) is None


def test_a_column_with_very_many_digits_is_refused_by_name():
    df = pd.DataFrame({"x": ["?", "1" * 400, "3", "4"] * 3, "y": range(12)})
    with pytest.raises(DataError, match="column 'x'"):
        Columns.from_frame(df, missing_values=["?"])
