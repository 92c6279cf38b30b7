"""`expfam topics`: find the topics of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.amounts import counted
from expfam.cli.arguments import (
    add_data,
    add_numbers_of_steps,
    concentration,
    positive_int,
    read_data,
)
from expfam.cli.coarsened import coarsened, groups_facts, say_groups
from expfam.cli.contents import fitting_words
from expfam.cli.errors import UsageError
from expfam.cli.figures import FIGURE_SUFFIXES, figure_writer, require_matplotlib
from expfam.cli.outputs import check_outputs, result_writers, save_all
from expfam.cli.results import (
    as_text,
    exit_code,
    plain,
    print_json,
    run_facts,
    run_line,
    say,
    score_line,
    shape_line,
    short,
    table_scores,
)
from expfam.cli.running import add_kept_run, add_limits, add_outputs, fit_shown, kept_run, output_line
from expfam.cli.texts import add_text, check_text, texts_of_column

if TYPE_CHECKING:
    import argparse

    from expfam import TopicModel
    from expfam.io.readers import Table

_TOPICS = 50  # as of TopicModel


class Documents(NamedTuple):
    """Documents of a file.

    Attributes
    ----------
    table : Table
        What the file holds.
    X : list of str, (N, V) ndarray, csr_array or Frame
        What the estimator is given.
    vocabulary : (V,) ndarray of str, or None
        Names of the columns that X does not hold itself.
    """

    table: Table
    X: Any
    vocabulary: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam topics`."""
    add_data(parser)
    parser.add_argument("--vocab", type=Path, metavar="FILE", help="file with the words of the columns, one per line")
    add_text(parser)
    model = parser.add_argument_group("model")
    size = model.add_mutually_exclusive_group()
    size.add_argument(
        "-k", "--components", type=positive_int, metavar="K", help=f"number of topics; default: {_TOPICS}"
    )
    size.add_argument("--infinite", action="store_true", help="find the number of topics: hierarchical Dirichlet")
    model.add_argument(
        "--alpha", type=concentration, default="auto", metavar="A", help="pseudo-count of a topic in a document"
    )
    model.add_argument(
        "--eta",
        type=concentration,
        metavar="E",
        help="pseudo-count of a word in a topic, or auto; default: learned by sampling, 0.015 or more",
    )
    group = parser.add_argument_group("run")
    add_numbers_of_steps(group)
    group.add_argument(
        "--sampler",
        default="auto",
        metavar="NAME",
        help="gibbs, documents, variational, or auto, which is gibbs for whole counts; default: %(default)s",
    )
    group.add_argument("--words", type=positive_int, default=10, metavar="N", help="words of a topic; default: 10")
    add_limits(group)
    add_kept_run(group)
    add_outputs(parser, figure="draw the topics")


def run(args: argparse.Namespace) -> int:
    """Run `expfam topics` and return its exit code."""
    from expfam.estimators.lines import whole_line_of
    from expfam.samplers.named import find_sampler

    check_outputs(args, "topic_model", figure=FIGURE_SUFFIXES)
    check_text(args)
    if args.figure is not None:
        require_matplotlib()
    find_sampler(args.sampler, model="TopicModel")
    resume, documents = kept_run(args), _documents(args)
    model, table = _model(args, documents.vocabulary), documents.table
    line = f"{whole_line_of(model)}.fit(X)"
    say(args, f"data      {args.data}: {_sizes(documents)}")
    say(args, f"python    {line}")
    if output_line(args):
        say(args, output_line(args))
    seconds = fit_shown(args, model, documents.X, resume=resume)
    found = coarsened(args, model)
    saved, failed = save_all(args, result_writers(found, table) | {"figure": figure_writer(found, table)})
    scores = table_scores(table, found._labels) if hasattr(found, "labels_") else None
    topics = _topics(args, found)
    say(args, run_line(model, seconds).replace("cluster", "topic"))
    say_groups(args, model, found)
    say(args, f"learned   alpha {_amount(model.alpha_)} in all, eta {_amount(model.eta_)}, by {model.method_}")
    if scores:
        say(args, f"scores    {score_line(scores)} (main topics against the labels in the file)")
    say(args, "\n" + _text(topics))
    if saved:
        say(args, "\nsaved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(model.n_documents_), "n_columns": int(model.n_features_in_)}
    result |= {"seed": model.random_state, "python": line, "method": model.method_, "alpha": plain(found.alpha_)}
    result |= {"eta": plain(model.eta_)} | run_facts(model, seconds) | groups_facts(model, found)
    result |= {"scores": scores, "topics": topics, "output": None, "labels": None, "figure": None}
    print_json(args, result | saved | {"not_saved": failed})
    return exit_code(model, failed)


def _documents(args):
    """Read the documents: texts, counts of words, or a column of texts in a table."""
    from expfam.cli.columns import rows_of_table
    from expfam.frames.frame import Frame

    options = {"frame": True, "texts": args.text is None, "vocab": args.vocab, "memory_limit": args.memory_limit}
    table = read_data(args, **options)
    if args.text is not None:
        return Documents(table, texts_of_column(args, table), None)
    if table.documents is not None:
        return Documents(table, table.documents, None)
    if isinstance(table.X, Frame):
        _check_counts(args, table.X)
        rows = rows_of_table(table)
        return Documents(table, rows, None if isinstance(rows, Frame) and args.vocab is None else table.column_names)
    return Documents(table, table.X, table.column_names)


def _check_counts(args, frame):
    """Refuse a table with a column of text, which is probably that of the documents."""
    of_text = [name for name in frame.names if frame.column(name).kind in ("text", "category")]
    if of_text:
        raise UsageError(
            f"{args.data}: column {of_text[0]!r} holds text: write --text {of_text[0]} if these are the documents, or "
            f"--id-column {of_text[0]} if they are the names of the rows"
        )


def _model(args, vocabulary):
    """Return the estimator that the options describe; what they leave open has its default."""
    from expfam import TopicModel
    from expfam.structures.ground.rng import resolve_seed

    return TopicModel(
        None if args.infinite else args.components or _TOPICS,
        alpha=args.alpha,
        eta=args.eta,
        sampler=args.sampler,
        n_steps="auto" if args.steps is None else args.steps,
        n_warmup="auto" if args.warmup is None else args.warmup,
        vocabulary=vocabulary,
        n_threads=args.threads,
        random_state=resolve_seed(args.seed),
        memory_limit=args.memory_limit,
        time_limit=args.time_limit,
    )


def _sizes(documents):
    """Return the sizes of the data in words."""
    if isinstance(documents.X, list):
        return counted(len(documents.X), "text", spec=",")
    return shape_line(documents.table.X)


def _topics(args: argparse.Namespace, model: TopicModel) -> list[dict[str, Any]]:
    """Return all topics with tokens, the largest first: number, tokens, share and words."""
    import numpy as np

    words, sizes, shares = model.top_words(args.words), model.cluster_sizes_, model.weights_
    order = [k for k in np.argsort(-sizes, kind="stable").tolist() if sizes[k] >= 0.5] or [0]
    return [
        {"topic": k, "tokens": float(sizes[k]), "share": float(shares[k]), "words": list(map(str, words[k]))}
        for k in order
    ]


def _text(topics):
    """Return the topics as a table that fits the terminal."""
    head, rows = ["topic", "tokens", "share"], []
    rows = [[entry["topic"], f"{entry['tokens']:,.0f}", f"{entry['share']:.1%}"] for entry in topics]
    width = max(map(len, as_text(head, rows).splitlines()))
    rows = [[*row, fitting_words(entry["words"], width)] for row, entry in zip(rows, topics)]
    return as_text([*head, "words"], rows)


def _amount(value):
    """Return a pseudo-count, or the sum of several, as a short text."""
    import numpy as np

    return short(float(np.sum(value)))
