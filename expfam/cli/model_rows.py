"""Rows of a data file as a saved model reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import read_data
from expfam.cli.columns import rows_of_table

if TYPE_CHECKING:
    import argparse

_SVMLIGHT = re.compile(r"\.(svm|svmlight|libsvm)(\.gz)?$", re.IGNORECASE)


def rows_for_model(args: argparse.Namespace, mixture: Any) -> tuple[Any, Any]:
    """Return the table that was read from DATA, and its rows for the model."""
    # the last columns of a sparse file may be empty; the model knows the number of columns
    known = {"n_features": mixture.n_features_in_} if _SVMLIGHT.search(args.data.name) else {}
    table = read_data(args, frame=True, **known)
    if table.documents is not None:
        return table, table.documents
    return table, table.X if getattr(mixture.family_, "roles", None) else rows_of_table(table)
