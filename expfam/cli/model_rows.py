"""Saved models of any estimator, and the rows of a data file in the form that a model reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import read_data
from expfam.cli.columns import rows_of_table
from expfam.cli.errors import UsageError
from expfam.cli.groups_of_rows import groups_of, reading_groups
from expfam.cli.texts import texts_of_column

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_SVMLIGHT = re.compile(r"\.(svm|svmlight|libsvm)(\.gz)?$", re.IGNORECASE)


def load_model(path: Path, *, trust: bool = False) -> Any:
    """Read a saved model of whichever estimator it is.

    Raises
    ------
    ArchiveError
        There is no such model, or it is damaged.
    """
    from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
    from expfam.archive import is_archive

    for estimator in (TopicModel, GroupedMixture, BayesianHierarchy):
        if is_archive(path, estimator.saved_kind):
            return estimator.load(path, trust=trust)
    return Mixture.load(path, trust=trust)


def rows_for_model(args: argparse.Namespace, model: Any, **options: Any) -> tuple[Any, Any]:
    """Return the table that was read from DATA, and its rows for the model.

    Options are those of reading.
    """
    is_of_texts = getattr(model, "documents_", None) is not None
    if args.text is not None and not is_of_texts:
        raise UsageError(f"--text: {args.model} is no model of texts: leave out --text")
    # the last columns of a sparse file may be empty; the model knows the number of columns
    known: dict[str, Any] = {"n_features": model.n_features_in_} if _SVMLIGHT.search(args.data.name) else {}
    if is_of_texts and args.text is None:
        known["texts"] = True
    table = read_data(args, frame=True, **known, **options)
    if args.text is not None:
        return table, texts_of_column(args, table)
    if table.documents is not None:
        return table, table.documents
    return table, table.X if getattr(model.family_, "roles", None) else rows_of_table(table)


def given_rows(args: argparse.Namespace, model: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the table of DATA, its rows for the model, and more keywords: their groups.

    Raises
    ------
    UsageError
        Groups are given for a model without groups, or lack for one with groups.
    """
    if model.saved_kind != "grouped_mixture":
        if args.groups is not None:
            raise UsageError(f"--groups: {args.model} is no model of rows in groups: leave out --groups")
        return (*rows_for_model(args, model), {})
    if args.groups is None:
        raise UsageError(f"{args.model} is a model of rows in groups: write --groups COLUMN, the group of each new row")
    table, X = reading_groups(args, lambda column: rows_for_model(args, model, link_column=column))
    return table, X, {"groups": groups_of(args, table)}
