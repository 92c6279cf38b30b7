"""Files that commands write: refused before any work where they cannot be, put in place when complete."""

import contextlib
import os
import secrets
import sys
import traceback

from expfam.cli.errors import UsageError, message_of

LABEL_SUFFIXES = (".csv", ".npy")
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")  # what spreadsheets take for the begin of a formula
_GUARD = "'"
_LINE_END = "\r\n"


def check_outputs(args, kind="mixture", **files):
    """Refuse, before any work, outputs that could not be written at the end.

    Each place is tried: something is made there and taken away again. `files` has the suffixes of each option that
    names a file, beside those of ``--labels``.
    """
    for option, suffixes in ({"labels": LABEL_SUFFIXES} | files).items():
        if (path := getattr(args, option)) is not None:
            check_file(args, path, f"--{option}", suffixes)
    if args.output is not None:
        with _refusing("--output", args.output):
            _check_directory(args.output, kind)
    _refuse_shared(args, ("output", "labels", *files))


def check_file(args, path, option, suffixes):
    """Refuse a file of another kind, one that cannot be made there, or one that the command reads."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option}: {path} must end in {' or '.join(suffixes)}")
    require_place(path, option)
    for name, noun in (("data", "the data file"), ("vocab", "the file of names")):
        source = getattr(args, name, None)
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{option}: {path} is read by this command, as {noun}; choose another name")


def require_place(path, option):
    """Refuse the path of a file that cannot be made there."""
    from expfam.archive import is_archive

    with _refusing(option, path):
        if not path.parent.is_dir():
            raise UsageError(f"{option}: there is no directory {path.parent}; make it first")
        if path.is_dir():
            raise UsageError(f"{option}: {path} is a directory; give the name of a file")
        if is_archive(path.parent):
            raise UsageError(f"{option}: {path.parent} is the directory of a saved model; choose another one")
        with replacing(path, "wb", keep=False):
            pass


@contextlib.contextmanager
def _refusing(option, path):
    """Turn the system's refusal of a place into one that names the option."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{option}: nothing can be written at {path} ({error.strerror or error}); choose another place"
        ) from error


def _check_directory(path, kind):
    from expfam.archive import check_place
    from expfam.errors import ArchiveError

    try:
        check_place(path, kind)
    except ArchiveError as error:
        raise UsageError(f"--output: {path} exists and is not replaced: {error}") from error


def _refuse_shared(args, options):
    """Refuse two outputs at one place."""
    places = {}
    for option in options:
        if (path := getattr(args, option)) is not None:
            other = places.setdefault(os.path.realpath(path), option)
            if other != option:
                raise UsageError(f"--{option}: {path} is the same file as of --{other}; choose another name")


def save_all(args, writers):
    """Write every output that was asked for, whatever becomes of the others.

    Parameters
    ----------
    args : Namespace
    writers : dict of str to callable
        For each option that names a place: takes the path and writes there.

    Returns
    -------
    saved : dict of str to str
        Path of each output that was written, by option.
    failed : dict of str to str
        Why the others were not written; told on standard error already.
    """
    saved, failed = {}, {}
    for option, write in writers.items():
        path = getattr(args, option)
        if path is None:
            continue
        try:
            write(path)
        except Exception as error:  # of whatever kind: what can still be saved is saved
            failed[option] = message_of(error)
            if args.debug:
                traceback.print_exc()
            print(
                f"expfam {args.command}: error: --{option}: nothing was saved at {path} ({failed[option]})",
                file=sys.stderr,
            )
        else:
            saved[option] = str(path)
    return saved, failed


def result_writers(estimator, table):
    """Writers of the model and of the labels, as `save_all` takes them."""
    return {
        "output": estimator.save,
        "labels": lambda path: write_labels(path, estimator.labels_, table.row_ids),
    }


def save_figure(figure, path, **options):
    """A figure of Matplotlib in the format of the file's suffix, put in place when complete."""
    with replacing(path, "wb") as file:
        figure.savefig(file, format=path.suffix[1:].lower(), **options)


def write_labels(path, labels, row_ids, probabilities=None):
    """Labels with the names of their rows, as CSV or .npy, put in place when complete."""
    if path.suffix.lower() == ".npy":
        import numpy as np

        with replacing(path, "wb") as file:
            np.save(file, labels, allow_pickle=False)
    else:
        with replacing(path, "w") as file:
            write_csv(file, labels, row_ids, probabilities)


def write_csv(file, labels, row_ids, probabilities=None):
    """Rows of row_id and label, then pairs of cluster and probability, the most probable first; rows count from 0.

    Names are guarded as by `guarded`.
    """
    import csv

    writer = csv.writer(_Lines(file), lineterminator=_LINE_END)
    head = ["row_id", "label"]
    ids = range(len(labels)) if row_ids is None else map(guarded, row_ids.tolist())
    if probabilities is None:
        writer.writerow(head)
        writer.writerows(zip(ids, labels.tolist()))
        return
    clusters, values = ranked(probabilities)
    for place in range(1, clusters.shape[1] + 1):
        head += [f"cluster_{place}", f"probability_{place}"]
    writer.writerow(head)
    for row_id, label, names, shares in zip(ids, labels.tolist(), clusters.tolist(), values.tolist()):
        writer.writerow([row_id, label, *(item for pair in zip(names, shares) for item in pair)])


class _Lines:
    """A text file whose lines end in one newline, for a CSV writer told otherwise: it quotes only its own line ends."""

    def __init__(self, file):
        self._file = file

    def write(self, line):
        """Write one line."""
        self._file.write(line.removesuffix(_LINE_END) + "\n")


def guarded(name):
    """A row's name as a cell that no spreadsheet takes for a formula.

    A text that begins with ``=``, ``+``, ``-``, ``@``, a tab, a line break or an apostrophe gets an apostrophe in
    front; all else, numbers too, stays. To read the names back, drop one leading apostrophe where there is one.

    Examples
    --------
    >>> from expfam.cli.outputs import guarded
    >>> [guarded(name) for name in ("=1+1", "plain", "'quoted", -1)]
    ["'=1+1", 'plain', "''quoted", -1]
    """
    is_risky = isinstance(name, str) and name.startswith((*_FORMULA_BEGINS, _GUARD))
    return _GUARD + name if is_risky else name


def ranked(probabilities):
    """Clusters and probabilities of each row of a CSR array with as many entries in each, largest first."""
    import numpy as np

    shape = (probabilities.shape[0], -1)
    clusters, values = probabilities.indices.reshape(shape), probabilities.data.reshape(shape)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(clusters, order, axis=1), np.take_along_axis(values, order, axis=1)


@contextlib.contextmanager
def replacing(path, mode, *, keep=True):
    """A file that takes its place only when it is complete; not even then without `keep`.

    Until then it is a new file in the same folder, of a name that cannot be told beforehand, so that neither a link
    nor another file laid there is written to.
    """
    stage = path.with_name(f".expfam-{secrets.token_hex(16)}")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with open(stage, mode.replace("w", "x"), **text) as file:  # "x": fails where anything stands, links too
        try:
            yield file
            file.close()
            if keep:
                os.replace(stage, path)
        finally:
            stage.unlink(missing_ok=True)
