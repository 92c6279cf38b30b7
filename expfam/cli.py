"""The command line: data files in, models, labels and scores out.

Standard output holds the results, or with ``--json`` one JSON object; progress, warnings and errors go to standard
error. Exit codes: 0 done, 1 the run failed, 2 bad usage or bad input, 130 stopped by Ctrl-C. What is needed to compute
is imported by the command that needs it, so that ``--help`` is quick.
"""

import argparse
import ast
import contextlib
import json
import os
import re
import sys
import time
import traceback
import warnings
from pathlib import Path

_DEMO_CLUSTERS = 20
_LISTED = 10  # clusters in a printed table
_WORDS = 8
_TIMED_ROWS = 50_000  # from which on the time is forecast unasked
_KERNEL_STARTS = 1000  # of which kernels with a part of split-merge moves are judged
_LABEL_SUFFIXES = (".csv", ".npy")
_SVMLIGHT = re.compile(r"\.(svm|svmlight|libsvm)(\.gz)?$", re.IGNORECASE)
_EPILOG = """exit codes: 0 done, 1 the run failed, 2 bad usage or bad input, 130 stopped by Ctrl-C
(fit then keeps the result so far). With --json, standard output is one JSON object, and empty after an error."""


class UsageError(Exception):
    """What was asked for cannot be done as it was asked."""


def main(argv=None):
    """Run one command.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; those of the process if not given.

    Returns
    -------
    int
        Exit code.

    Examples
    --------
    >>> from expfam.cli import main
    >>> main(["predict", "no-such-model", "no-such-file.npy"])
    2
    """
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has already said why
        return stop.code or 0
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return args.run(args)
    except KeyboardInterrupt:
        return _fail(args, "interrupted before there was a result; nothing was saved", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter fails again on closing
        return 1
    except Exception as error:
        return _fail(args, _message(error), 2 if _is_bad_input(error) else 1)


def build_parser():
    """Parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="expfam",
        description="Fast Bayesian clustering with exponential families.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(_command(commands, "demo", _demo, "cluster scikit-learn's handwritten digits and draw what was found"))
    _add_fit(_command(commands, "fit", _fit, "cluster the rows of a file"))
    _add_tree(_command(commands, "tree", _tree, "hierarchy of clusters of the rows of a file"))
    _add_predict(_command(commands, "predict", _predict, "clusters of new rows under a saved model"))
    _add_plugins(_command(commands, "plugins", _plugins, "list the installed families and proposals"))
    _add_check(_command(commands, "check", _check, "try the laws on families or proposals, and tell how each went"))
    _add_new(_command(commands, "new", _new, "begin a family or a proposal of your own, as a distribution with tests"))
    return parser


# ---- parser ----------------------------------------------------------------------------------------------------------


def _command(commands, name, run, summary):
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    parser.set_defaults(run=run, command=name, quiet=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _add_demo(parser):
    parser.add_argument(
        "--figure", type=Path, default=Path("expfam-demo.png"), metavar="PATH", help="default: %(default)s"
    )
    parser.add_argument("--seed", type=_seed, default=0, metavar="INT", help="default: %(default)s")


def _add_family(parser):
    model = parser.add_argument_group("model")
    model.add_argument("--family", required=True, metavar="NAME", help="see `expfam plugins`")
    model.add_argument(
        "--hyper",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="hyper-parameters of the family; numbers, 'auto', or lists such as [1,2]",
    )
    return model


def _add_fit(parser):
    _add_data(parser)
    parser.add_argument("--vocab", type=Path, metavar="FILE", help="names of the columns, one a line")
    model = _add_family(parser)
    size = model.add_mutually_exclusive_group()
    size.add_argument("-k", "--components", type=_positive_int, metavar="K", help="symmetric Dirichlet prior over K")
    size.add_argument("--infinite", action="store_true", help="Dirichlet process (the default)")
    model.add_argument(
        "--alpha", type=_positive, metavar="A", help="concentration: in all (default 1), with -k per component (1/K)"
    )
    run = parser.add_argument_group("run")
    run.add_argument(
        "--steps", type=_natural_int, default=50, metavar="N", help="after the warm-up; default: %(default)s"
    )
    run.add_argument("--warmup", type=_natural_int, metavar="N", help="steps before; default: 50, at most --steps")
    run.add_argument("--sampler", default="auto", metavar="NAME", help="default: %(default)s")
    starts = ("auto", "random", "kmeans++", "tree", "tree_point", "sequential", "one", "buckets", "progressive")
    run.add_argument("--start", default="auto", choices=starts)
    run.add_argument("--seed", type=_seed, metavar="INT", help="default: a random one, which is printed")
    run.add_argument("--threads", type=_threads, metavar="N", help="-1 for all cores; results do not depend on it")
    run.add_argument(
        "--memory-limit", type=_memory, metavar="SIZE", help="beside the data, such as 4GB; default: what is free"
    )
    run.add_argument(
        "--time-limit", type=_seconds, metavar="TIME", help="expected at most, such as 10min; default: none"
    )
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="DIR", help="save the model to this directory")
    out.add_argument("--labels", type=Path, metavar="FILE", help="save the labels: .csv (row_id,label) or .npy")
    out.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_tree(parser):
    _add_data(parser)
    model = _add_family(parser)
    model.add_argument("--alpha", type=_alpha, default=1.0, metavar="A", help="concentration, or auto; default: 1")
    model.add_argument("--tune", action="store_true", help="choose hyper-parameters by the evidence of a subsample")
    run = parser.add_argument_group("run")
    run.add_argument("--order", choices=("odds", "odds_size", "best"), default="odds", help="default: %(default)s")
    run.add_argument(
        "--neighbors", type=_positive_int, metavar="K", help="merge near rows only, while there are any: for many rows"
    )
    run.add_argument("-k", "--clusters", type=_positive_int, metavar="K", help="cut into K; default: where odds say so")
    run.add_argument("--seed", type=_seed, default=0, metavar="INT", help="of subsamples; default: %(default)s")
    run.add_argument("--threads", type=_threads, metavar="N", help="-1 for all cores; results do not depend on it")
    out = parser.add_argument_group("output")
    out.add_argument("--output", type=Path, metavar="DIR", help="save the hierarchy to this directory")
    out.add_argument("--labels", type=Path, metavar="FILE", help="save the labels: .csv (row_id,label) or .npy")
    out.add_argument("--linkage", type=Path, metavar="FILE", help="save SciPy's linkage matrix: .npy")
    out.add_argument("--newick", type=Path, metavar="FILE", help="save the tree in Newick's format")
    out.add_argument("--figure", type=Path, metavar="FILE", help="draw the top of the tree")
    out.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _add_predict(parser):
    parser.add_argument("model", type=Path, metavar="MODEL", help="directory that fit --output or Mixture.save wrote")
    _add_data(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=".csv, .npy or .npz; default: CSV to standard output"
    )
    parser.add_argument(
        "--proba",
        type=_positive_int,
        metavar="TOP",
        help="add the TOP most probable clusters of each row; the whole of an .npz file, as sparse rows",
    )
    parser.add_argument("--threads", type=_threads, metavar="N", help="-1 for all cores")


def _add_plugins(parser):
    parser.add_argument(
        "--check", action="store_true", help="load each one and try the laws on it; exit 1 if one fails"
    )


def _add_check(parser):
    parser.add_argument("names", nargs="+", metavar="NAME", help="see `expfam plugins`; or DISTRIBUTION:NAME")


def _add_new(parser):
    parser.add_argument("kind", choices=("family", "proposal"))
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and underscores")
    parser.add_argument(
        "--to", type=Path, default=Path(), metavar="DIR", help="where expfam-NAME is made; default: here"
    )


def _add_data(parser):
    parser.add_argument(
        "data", type=Path, metavar="DATA", help=".npy, .npz, .mtx, .svmlight, .csv, .tsv, .parquet, or UCI docword .txt"
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument("--key", metavar="NAME", help="array of an .npz file")
    reading.add_argument("--id-column", type=_column, metavar="COLUMN", help="of a table: names of the rows")
    reading.add_argument(
        "--label-column", type=_column, metavar="COLUMN", help="of a table: known classes, only scored"
    )


def _checked_type(convert, holds, rule):
    def parse(text):
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise argparse.ArgumentTypeError(f"{rule}; got {text!r}")
        return value

    return parse


_positive_int = _checked_type(int, lambda value: value >= 1, "must be an integer of at least 1")
_natural_int = _checked_type(int, lambda value: value >= 0, "must be an integer of at least 0")
_seed = _checked_type(int, lambda value: 0 <= value < 2**64, "must be an integer in [0, 2**64)")
_threads = _checked_type(int, lambda value: value == -1 or value >= 1, "must be -1 or an integer of at least 1")
_alpha = _checked_type(
    lambda text: text if text == "auto" else float(text),
    lambda value: value == "auto" or 0 < value < float("inf"),
    "must be a positive number or auto",
)
_positive = _checked_type(float, lambda value: 0 < value < float("inf"), "must be a positive number")


def _memory(text):
    from expfam.forecast import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text):
    from expfam.duration import parse_seconds

    try:
        return parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _column(text):
    return int(text) if text.isdecimal() else text


def _version():
    from expfam import __version__

    return __version__


# ---- demo ------------------------------------------------------------------------------------------------------------


def _demo(args):
    from sklearn.datasets import load_digits

    from expfam import Mixture

    if args.figure.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise UsageError(f"--figure: {args.figure} must end in .png, .pdf or .svg")
    _require_parent(args.figure, "--figure")
    X, digits = load_digits(return_X_y=True)
    _say(args, f"{len(X):,} images of handwritten digits, {X.shape[1]} counts of ink each: a mixture of multinomials")
    began = time.perf_counter()
    mixture = _fit_with_progress(args, Mixture("multinomial", _DEMO_CLUSTERS, random_state=args.seed), X)
    seconds = time.perf_counter() - began
    scores, table = _scores(digits, mixture.labels_), _digit_table(mixture, digits)
    picture = _draw_digits(args.figure, mixture, table)
    _say(args, _run_line(mixture, seconds))
    _say(args, f"against the digits, which the fit never saw: {_score_line(scores)}\n")
    _say(args, _as_text(("cluster", "size", "digit", "share"), [_digit_row(entry) for entry in table]))
    _say(
        args,
        f"\npicture   {picture}" if picture else "\nno picture: drawing needs matplotlib: pip install 'expfam[plot]'",
    )
    result = {"n_rows": len(X), "n_columns": X.shape[1], "family": "multinomial", "seed": args.seed}
    result |= _run_facts(mixture, seconds) | {"scores": scores, "clusters": table}
    _print_json(args, result | {"figure": str(picture) if picture else None})
    return 130 if mixture.interrupted_ else 0


def _digit_table(mixture, digits):
    """Clusters with the digit that most of their images show, by digit and size."""
    import numpy as np

    table = []
    for k, size in enumerate(mixture.cluster_sizes_.tolist()):
        counts = np.bincount(digits[mixture.labels_ == k], minlength=10)
        table.append({"cluster": k, "size": size, "digit": int(counts.argmax()), "share": float(counts.max() / size)})
    return sorted(table, key=lambda entry: (entry["digit"], -entry["size"]))


def _digit_row(entry):
    return entry["cluster"], f"{entry['size']:,}", entry["digit"], f"{entry['share']:.0%}"


def _draw_digits(path, mixture, table):
    """The clusters' means drawn to a file: its path, or None without matplotlib."""
    from expfam.displays import ClusterMeansDisplay

    try:
        from matplotlib.figure import Figure  # not pyplot, whose windows and settings are the caller's
    except ImportError:
        return None
    everything = ClusterMeansDisplay.from_estimator(mixture, n_max=len(table))
    place = {name: position for position, name in enumerate(everything.names)}
    order = [place[entry["cluster"]] for entry in table]
    names = [f"“{entry['digit']}”" for entry in table]
    display = ClusterMeansDisplay(everything.means[order], everything.sizes[order], names=names)
    figure = Figure(figsize=display.image_size(), dpi=160, layout="constrained")
    display.plot(figure.subplots(), kind="image")
    figure.savefig(path)
    return path.resolve()


# ---- fit -------------------------------------------------------------------------------------------------------------


def _fit(args):
    from expfam import DirichletProcess, Mixture, SymmetricDirichlet
    from expfam.model.readers import read
    from expfam.samplers import load_sampler
    from expfam.structures._rng import resolve_seed

    _check_outputs(args)
    family = _family(args.family, args.hyper)
    load_sampler(args.sampler)
    table = read(args.data, vocab=args.vocab, **_reading(args))
    k = args.components
    weights = DirichletProcess(args.alpha or 1.0) if k is None else SymmetricDirichlet(k, alpha=args.alpha)
    seed = resolve_seed(args.seed)
    forecast = _forecast(table.X, family, k)
    _say(args, f"data      {args.data}: {_shape_line(table.X)}")
    _say(args, f"model     {family!r}, {weights!r}, seed {seed}")
    _say(args, f"memory    about {forecast}")
    mixture = Mixture(
        family,
        weights=weights,
        sampler=args.sampler,
        n_steps=args.steps,
        n_warmup="auto" if args.warmup is None else args.warmup,
        start=args.start,
        n_threads=args.threads,
        random_state=seed,
        memory_limit=args.memory_limit,
    )
    duration = _forecast_time(args, mixture, table.X)
    if duration is not None:
        _say(args, f"time      about {duration}")
    if args.output is None and args.labels is None:
        _say(args, "output    none: --output DIR keeps the model, --labels FILE the labels")
    began = time.perf_counter()
    _fit_with_progress(args, mixture, table.X)
    seconds = time.perf_counter() - began
    # saved before anything is printed: a closed pipe must not cost the result
    saved = _save(args, mixture, table)
    scores, clusters = _table_scores(table, mixture.labels_), _largest(mixture, table.column_names)
    _say(args, _run_line(mixture, seconds))
    learned = _learned(family, mixture.family_)
    if learned:
        _say(args, f"learned   {', '.join(f'{name} = {_short(value)}' for name, value in learned.items())}")
    if scores:
        _say(args, f"scores    {_score_line(scores)} (against the labels in the file)")
    _say(args, "\n" + _cluster_text(clusters, mixture))
    if saved:
        _say(args, "\nsaved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(table.X.shape[0]), "n_columns": int(table.X.shape[1])}
    result |= {"family": family.name, "hyper": _plain(mixture.family_.get_params()), "weights": repr(weights)}
    result |= {"seed": seed, "memory_forecast": forecast.beside_data} | _run_facts(mixture, seconds)
    _print_json(args, result | {"scores": scores, "clusters": clusters, "output": None, "labels": None} | saved)
    return 130 if mixture.interrupted_ else 0


def _check_outputs(args, kind="mixture"):
    """Refuse, before any work, outputs that could not be written at the end."""
    if args.output is not None:
        from expfam.model.archive import is_archive

        path = args.output
        is_empty = path.is_dir() and not any(path.iterdir())
        if path.exists() and not is_empty and not is_archive(path, kind):
            raise UsageError(f"--output: {path} exists and is no model of expfam; choose another directory")
    if args.labels is not None:
        _check_file(args, args.labels, "--labels", _LABEL_SUFFIXES)


def _check_file(args, path, option, suffixes):
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option}: {path} must end in {' or '.join(suffixes)}")
    _require_parent(path, option)
    if path.exists() and args.data.exists() and path.samefile(args.data):
        raise UsageError(f"{option}: {path} is the data file; choose another name")


def _require_parent(path, option):
    if not path.parent.is_dir():
        raise UsageError(f"{option}: there is no directory {path.parent}; make it first")
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a directory; give the name of a file")


def _family(name, settings):
    from expfam import load_family

    hyper = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (key and equals and text):
            raise UsageError(f"--hyper: {setting!r} is not of the form name=value")
        hyper[key] = _value(text)
    try:
        return load_family(name, **hyper)
    except TypeError as error:
        known = load_family(name).get_params() if hyper else {}
        unknown = [key for key in hyper if key not in known]
        if not unknown:
            raise UsageError(f"--family {name}: {error}") from error
        raise UsageError(
            f"--hyper: family {name!r} has no {unknown[0]!r}; it has {', '.join(known) or 'none'}"
        ) from error


def _value(text):
    """A hyper-parameter's value: a Python literal, lists as arrays, and any other word as it stands."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, (list, tuple)):
        import numpy as np

        return np.array(value, dtype=np.float64)
    return value


def _reading(args, **more):
    options = {"key": args.key, "id_column": args.id_column, "label_column": args.label_column, **more}
    return {name: value for name, value in options.items() if value is not None}


def _forecast(X, family, n_components):
    from expfam import Dataset
    from expfam.forecast import forecast_memory

    return forecast_memory(Dataset(X, family), n_components=n_components)


def _forecast_time(args, mixture, X):
    """Duration of a fit with a limit, or of many rows; refused above the limit. None where timing would not pay."""
    from expfam import Dataset, MixtureModel
    from expfam.duration import check_duration, forecast_duration
    from expfam.samplers import load_sampler

    if args.time_limit is None and (X.shape[0] < _TIMED_ROWS or args.quiet or args.json):
        return None
    data = Dataset(X, mixture.family)
    kernel = load_sampler(mixture.sampler, n_threads=mixture.n_threads, weights=mixture.weights)
    n_steps, n_warmup = args.steps, min(50, args.steps) if args.warmup is None else args.warmup
    model = MixtureModel(data.family, mixture.weights)
    kernel.check(model, data)
    start = args.start
    duration = forecast_duration(kernel, model, data, n_warmup + n_steps, seed=mixture.random_state, start=start)
    if args.time_limit is not None:
        check_duration(duration, args.time_limit)
    return duration


def _fit_with_progress(args, mixture, X):
    """The mixture, fitted; a bar on standard error where that is a terminal."""
    from expfam.samplers.callbacks import Progress

    n_steps = mixture.n_steps
    total = n_steps + (min(50, n_steps) if mixture.n_warmup == "auto" else mixture.n_warmup)
    bar = Progress(total, disable=True if args.quiet else None, leave=False, file=sys.stderr)
    mixture.set_params(callbacks=[bar]).fit(X)
    return mixture.set_params(callbacks=None)  # the bar is no part of the model that is saved


def _save(args, mixture, table):
    """Model and labels written where they were asked for: what was written, by name."""
    saved = {}
    if args.output is not None:
        mixture.save(args.output)
        saved["output"] = str(args.output)
    if args.labels is not None:
        _write_labels(args.labels, mixture.labels_, table.row_ids)
        saved["labels"] = str(args.labels)
    return saved


# ---- tree ------------------------------------------------------------------------------------------------------------


def _tree(args):
    from expfam import BayesianHierarchy
    from expfam.model.readers import read

    _check_outputs(args, "hierarchy")
    forms = (("linkage", (".npy",)), ("newick", (".nwk", ".newick", ".txt")), ("figure", (".png", ".pdf", ".svg")))
    for option, suffixes in forms:
        if (path := getattr(args, option)) is not None:
            _check_file(args, path, f"--{option}", suffixes)
    family = _family(args.family, args.hyper)
    table = read(args.data, **_reading(args))
    _say(args, f"data      {args.data}: {_shape_line(table.X)}")
    hierarchy = BayesianHierarchy(
        family,
        alpha=args.alpha,
        tune=args.tune,
        n_clusters=args.clusters,
        order=args.order,
        candidates=None if args.neighbors is None else "knn",
        n_neighbors=args.neighbors or 10,
        n_threads=args.threads,
        random_state=args.seed,
    )
    began = time.perf_counter()
    _grow_with_progress(args, hierarchy, table.X)
    seconds = time.perf_counter() - began
    saved = _save(args, hierarchy, table) | _save_forms(args, hierarchy, table)
    scores = _table_scores(table, hierarchy.labels_)
    state = "stopped  " if hierarchy.interrupted_ else "result   "
    _say(args, f"model     {hierarchy.family_!r}, alpha {hierarchy.alpha_:g}, order {hierarchy.order_}")
    _say(
        args,
        f"{state} {hierarchy.n_clusters_} clusters, log evidence {hierarchy.log_evidence_:,.1f} nats, "
        f"{hierarchy.n_scores_:,} pairs scored in {seconds:.3g} s",
    )
    if scores:
        _say(args, f"scores    {_score_line(scores)} (against the labels in the file)")
    if saved:
        _say(args, "saved     " + ", ".join(saved.values()))
    result = {"data": str(args.data), "n_rows": int(table.X.shape[0]), "n_columns": int(table.X.shape[1])}
    result |= {"family": family.name, "hyper": _plain(hierarchy.family_.get_params()), "alpha": hierarchy.alpha_}
    result |= {"n_clusters": hierarchy.n_clusters_, "log_evidence": hierarchy.log_evidence_, "seconds": seconds}
    result |= {"order": hierarchy.order_, "n_scores": hierarchy.n_scores_, "interrupted": hierarchy.interrupted_}
    nothing = dict.fromkeys(("output", "labels", "linkage", "newick", "figure"))
    _print_json(args, result | {"scores": scores} | nothing | saved)
    return 130 if hierarchy.interrupted_ else 0


def _grow_with_progress(args, hierarchy, X):
    from expfam.samplers.callbacks import Progress

    bar = Progress(disable=True if args.quiet else None, leave=False, file=sys.stderr)
    hierarchy.set_params(callbacks=[bar]).fit(X).set_params(callbacks=None)


def _save_forms(args, hierarchy, table):
    """Other forms of the tree, written where they were asked for: what was written, by name."""
    import numpy as np

    saved = {}
    if args.linkage is not None and hierarchy.interrupted_:
        print("expfam tree: no linkage matrix of a forest was saved", file=sys.stderr)
    elif args.linkage is not None:
        with _replacing(args.linkage, "wb") as file:
            np.save(file, hierarchy.linkage_matrix())
        saved["linkage"] = str(args.linkage)
    if args.newick is not None:
        with _replacing(args.newick, "w") as file:
            file.write(hierarchy.to_newick(table.row_ids) + "\n")
        saved["newick"] = str(args.newick)
    if args.figure is not None:
        from matplotlib.figure import Figure  # not pyplot, whose windows and settings are the caller's

        from expfam.dendrogram import DendrogramDisplay

        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        DendrogramDisplay.from_estimator(hierarchy, names=table.row_ids).plot(figure.subplots())
        figure.savefig(args.figure, dpi=150)
        saved["figure"] = str(args.figure)
    return saved


# ---- predict ---------------------------------------------------------------------------------------------------------


def _predict(args):
    from expfam import Mixture
    from expfam.model.readers import read

    suffixes = (".csv", ".npy", ".npz")
    if args.output is not None:
        _check_file(args, args.output, "--output", suffixes)
        if (args.output.suffix.lower() == ".npz") and args.proba is None:
            raise UsageError("--output: .npz holds probabilities; add --proba TOP, or choose .csv or .npy")
        if (args.output.suffix.lower() == ".npy") and args.proba is not None:
            raise UsageError("--output: .npy holds labels only; choose .csv or .npz for probabilities")
    mixture = Mixture.load(args.model)
    # the last columns of a sparse file may be empty, only the model knows of them
    n_features = mixture.n_features_in_ if _SVMLIGHT.search(args.data.name) else None
    table = read(args.data, **_reading(args, n_features=n_features))
    mixture.set_params(n_threads=args.threads)
    began = time.perf_counter()
    labels = mixture.predict(table.X)
    probabilities = None if args.proba is None else mixture.predict_proba(table.X, n_top=args.proba)
    seconds = time.perf_counter() - began
    scores = _table_scores(table, labels)
    _write_prediction(args, labels, probabilities, table.row_ids)
    line = f"{len(labels):,} rows in {seconds:.3g} s" + (f"; {_score_line(scores)}" if scores else "")
    if not args.json:
        print(line, file=sys.stderr)
    result = {"model": str(args.model), "data": str(args.data), "n_rows": len(labels), "seconds": seconds}
    result |= {"n_clusters": int(mixture.n_components_), "scores": scores}
    if args.output is None:
        result |= {"labels": labels.tolist()}
        if probabilities is not None:
            clusters, values = _ranked(probabilities)
            result |= {"clusters": clusters.tolist(), "probabilities": values.tolist()}
    _print_json(args, result | {"output": str(args.output) if args.output else None})
    return 0


def _write_prediction(args, labels, probabilities, row_ids):
    path = args.output
    if path is None:
        if not args.json:
            _write_csv(sys.stdout, labels, row_ids, probabilities)
    elif path.suffix.lower() == ".npz":
        from scipy import sparse

        with _replacing(path, "wb") as file:
            sparse.save_npz(file, sparse.csr_array(probabilities))
    else:
        _write_labels(path, labels, row_ids, probabilities)


def _write_labels(path, labels, row_ids, probabilities=None):
    if path.suffix.lower() == ".npy":
        import numpy as np

        with _replacing(path, "wb") as file:
            np.save(file, labels, allow_pickle=False)
    else:
        with _replacing(path, "w") as file:
            _write_csv(file, labels, row_ids, probabilities)


def _write_csv(file, labels, row_ids, probabilities=None):
    """Rows of row_id and label, then pairs of cluster and probability, the most probable first; rows count from 0."""
    import csv

    writer = csv.writer(file, lineterminator="\n")
    head = ["row_id", "label"]
    ids = range(len(labels)) if row_ids is None else row_ids.tolist()
    if probabilities is None:
        writer.writerow(head)
        writer.writerows(zip(ids, labels.tolist()))
        return
    clusters, values = _ranked(probabilities)
    for place in range(1, clusters.shape[1] + 1):
        head += [f"cluster_{place}", f"probability_{place}"]
    writer.writerow(head)
    for row_id, label, names, shares in zip(ids, labels.tolist(), clusters.tolist(), values.tolist()):
        writer.writerow([row_id, label, *(item for pair in zip(names, shares) for item in pair)])


def _ranked(probabilities):
    """Clusters and probabilities of each row of a CSR array with as many entries in each, largest first."""
    import numpy as np

    shape = (probabilities.shape[0], -1)
    clusters, values = probabilities.indices.reshape(shape), probabilities.data.reshape(shape)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(clusters, order, axis=1), np.take_along_axis(values, order, axis=1)


@contextlib.contextmanager
def _replacing(path, mode):
    """A file that takes its place only when it is complete."""
    stage = path.with_name(f".{path.name}.{os.getpid()}")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(stage, mode, **text) as file:
            yield file
        os.replace(stage, path)
    finally:
        stage.unlink(missing_ok=True)


# ---- plugins ---------------------------------------------------------------------------------------------------------


def _plugins(args):
    from expfam.plugins.registry import check_all, list_plugins

    report = check_all() if args.check else [(plugin, None) for plugin in list_plugins()]
    entries = []
    for plugin, fault in report:
        kind = plugin.group.removeprefix("expfam.").replace("families", "family").replace("proposals", "proposal")
        entry = {"kind": kind, "name": plugin.name, "distribution": plugin.distribution, "version": plugin.version}
        entry["value"] = plugin.value
        if args.check:
            if fault is None:
                fault = _broken_laws(plugin)
            entry |= {"passed": fault is None, "fault": fault}
        entries.append(entry)
    head = ("kind", "name", "from", "class") + (("check",) if args.check else ())
    rows = [(entry["kind"], entry["name"], _source(entry), entry["value"], *_verdict(entry)) for entry in entries]
    _say(args, _as_text(head, rows, left=True))
    _print_json(args, {"plugins": entries})
    return 0 if all(entry.get("passed", True) for entry in entries) else 1


def _check(args):
    """Reports of the named plugins, law by law."""
    reports = [_laws(plugin) for name in args.names for plugin in _plugins_called(name)]
    for report in reports:
        _say(args, f"{report}\n")
    entries = [{"plugin": r.subject, "results": [result._asdict() for result in r.results]} for r in reports]
    _print_json(args, {"reports": entries})
    return 0 if all(report.passed for report in reports) else 1


def _new(args):
    from expfam.plugins.scaffold import new_plugin

    try:
        path = new_plugin(args.kind, args.name, args.to)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(str(error)) from error
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    _say(args, f"{path}:\n  " + "\n  ".join(files))
    _say(args, f"\nnext      cd {path} && python -m pip install -e '.[test]' && python -m pytest")
    _print_json(args, {"kind": args.kind, "name": args.name, "path": str(path), "files": files})
    return 0


def _plugins_called(name):
    """Every offer of that name, of either kind."""
    from expfam.plugins.registry import list_plugins, load_family

    found = [plugin for plugin in list_plugins() if name in (plugin.name, plugin.qualified_name)]
    if not found:
        load_family(name)  # its error says what there is
    return found


def _broken_laws(plugin):
    """What the conformance kit finds wrong with a plugin at its default settings, None for nothing."""
    try:
        report = _laws(plugin)
    except Exception as error:  # a stranger's code may raise anything; the other plugins are still to be checked
        return f"the laws cannot be tried: {_message(error)}"
    return "; ".join(f"{name}: {report[name].message}" for name in report.named("failed")) or None


def _laws(plugin):
    """Report on a plugin at its default settings; parts of split-merge moves are judged by a kernel with them."""
    from expfam.plugins.conformance import check_family, check_kernel, check_proposal
    from expfam.plugins.registry import load_family, load_proposal
    from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge

    if plugin.group == "expfam.families":
        return check_family(load_family(plugin.qualified_name), raises=False)
    part = load_proposal(plugin.qualified_name)
    if part.kind == "assignment":
        return check_proposal(part, raises=False)
    kernel = Cycle(SplitMerge(**{part.kind: part}), CollapsedGibbs())
    return check_kernel(kernel, n_moves=_KERNEL_STARTS, raises=False)


def _source(entry):
    return f"{entry['distribution']} {entry['version']}".strip()


def _verdict(entry):
    if "passed" not in entry:
        return ()
    return ("ok" if entry["passed"] else f"FAILED {entry['fault']}",)


# ---- what a fit found ------------------------------------------------------------------------------------------------


def _table_scores(table, labels):
    """Scores against a file's labels, None where it has none or they are not classes."""
    known = table.labels
    return None if known is None or known.dtype.kind not in "biuUS" else _scores(known, labels)


def _scores(classes, labels):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from expfam import purity, variation_of_information

    return {
        "normalized_mutual_information": float(normalized_mutual_info_score(classes, labels)),
        "adjusted_rand_index": float(adjusted_rand_score(classes, labels)),
        "variation_of_information_nats": variation_of_information(classes, labels),
        "purity": purity(classes, labels),
    }


def _score_line(scores):
    names = ("NMI {:.3f}", "ARI {:.3f}", "VI {:.3f} nats", "purity {:.3f}")
    return ", ".join(name.format(value) for name, value in zip(names, scores.values()))


def _run_facts(mixture, seconds):
    return {
        "n_clusters": int(mixture.n_components_),
        "log_joint": mixture.log_joint_,
        "n_steps": int(mixture.n_iter_),
        "seconds": seconds,
        "interrupted": bool(mixture.interrupted_),
    }


def _run_line(mixture, seconds):
    state = "stopped  " if mixture.interrupted_ else "result   "
    return (
        f"{state} {mixture.n_components_} clusters, log joint {mixture.log_joint_:,.1f} nats, "
        f"{mixture.n_iter_} steps in {seconds:.3g} s"
    )


def _largest(mixture, column_names):
    """The largest clusters, with the words that tell them from the rest where the columns of counts have names."""
    import numpy as np

    order = np.argsort(-mixture.cluster_sizes_, kind="stable")[:_LISTED].tolist()
    clusters = [{"cluster": k, "size": int(mixture.cluster_sizes_[k])} for k in order]
    if column_names is not None and mixture.family_.support == "counts":
        from expfam.displays import ClusterMeansDisplay

        display = ClusterMeansDisplay.from_estimator(mixture, feature_names=column_names, n_max=_LISTED)
        for entry, words in zip(clusters, display.top_words(_WORDS)):
            entry["words"] = words
    return clusters


def _cluster_text(clusters, mixture):
    total = int(mixture.cluster_sizes_.sum())
    head = ("cluster", "size", "share") + (("words",) if "words" in clusters[0] else ())
    rows = [(entry["cluster"], f"{entry['size']:,}", f"{entry['size'] / total:.1%}") for entry in clusters]
    rows = [(*row, " ".join(entry["words"])) if "words" in entry else row for row, entry in zip(rows, clusters)]
    more = mixture.n_components_ - len(clusters)
    return _as_text(head, rows) + (f"\n  and {more} smaller ones" if more else "")


def _learned(before, after):
    """Hyper-parameters that the fit changed, by name."""
    return {
        name: value
        for name, value in _plain(after.get_params()).items()
        if name in after.hyper and value != _plain(before.get_params())[name]
    }


# ---- text and JSON ---------------------------------------------------------------------------------------------------


def _say(args, text):
    if not (args.json or args.quiet):
        print(text)


def _print_json(args, result):
    if args.json:
        print(json.dumps({"command": args.command, **result}, allow_nan=False))


def _plain(value):
    """Numbers, strings, lists and dicts of a value that may hold arrays."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def _short(value):
    if isinstance(value, list):
        return f"[{len(value)} values]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shape_line(X):
    from scipy import sparse

    line = f"{X.shape[0]:,} rows, {X.shape[1]:,} columns"
    return f"{line}, {X.nnz:,} stored entries" if sparse.issparse(X) else line


def _as_text(head, rows, *, left=False):
    """A table with aligned columns; numbers to the right, the last of them and all of `left` tables to the left."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    is_left = [left or name == "words" for name in head]
    lines = [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width) for cell, width, to_left in zip(row, widths, is_left)
        )
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"expfam: warning: {message}", file=sys.stderr)


def _is_bad_input(error):
    """Whether the user's arguments or data are to blame, not the run."""
    from expfam.errors import CapabilityError, ExpFamError, PluginError, ResourceError

    if isinstance(error, ExpFamError):
        return not isinstance(error, ResourceError)
    return isinstance(error, (UsageError, CapabilityError, PluginError, ValueError, TypeError))


def _message(error):
    text = " ".join(str(error).split())
    from expfam.errors import ExpFamError

    if isinstance(error, (ExpFamError, UsageError, ValueError, OSError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _fail(args, message, code):
    if args.debug:
        traceback.print_exc()
    print(f"expfam {args.command}: error: {message}", file=sys.stderr)
    return code
