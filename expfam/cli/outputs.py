"""Files that commands write: checked before any work, and moved into place when complete."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from expfam.cli.errors import UsageError, message_of

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    import numpy.typing as npt

LABEL_SUFFIXES = (".csv", ".npy")
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")  # spreadsheets read these as the start of a formula
_GUARD = "'"
_LINE_END = "\r\n"


def check_outputs(args: argparse.Namespace, kind: str = "mixture", **files: Sequence[str]) -> None:
    """Refuse, before any work, outputs that could not be written at the end.

    Each place is tried: a file is made there and removed again. `files` holds the allowed suffixes of each option that
    names a file, in addition to ``--labels``.
    """
    for option, suffixes in ({"labels": LABEL_SUFFIXES} | files).items():
        if (path := getattr(args, option, None)) is not None:
            check_file(args, path, f"--{option}", suffixes)
    if args.output is not None:
        with _refusing("--output", args.output):
            _check_directory(args.output, kind)
    _refuse_shared(args, ("output", "labels", *files))


def check_file(args: argparse.Namespace, path: Path, option: str, suffixes: Sequence[str]) -> None:
    """Refuse a path with a wrong suffix, an impossible place, or a file that the command reads."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option}: {path} must end in {' or '.join(suffixes)}")
    require_place(path, option)
    for name, noun in (("data", "the data file"), ("vocab", "the file of names")):
        source = getattr(args, name, None)
        if source is not None and path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{option}: {path} is read by this command, as {noun}; choose another name")


def require_place(path: Path, option: str) -> None:
    """Refuse a path at which no file can be made."""
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
    """Turn an OSError about a place into a UsageError that names the option."""
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
    """Refuse two outputs at the same place."""
    places = {}
    for option in options:
        if (path := getattr(args, option, None)) is not None:
            other = places.setdefault(os.path.realpath(path), option)
            if other != option:
                raise UsageError(f"--{option}: {path} is the same file as --{other}; choose another name")


def save_all(
    args: argparse.Namespace, writers: Mapping[str, Callable[[Path], Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Write every requested output, also if others fail.

    Each writer is called with the path that its option names. Return two dicts by option: the paths of the outputs that
    were written, and the messages of those that were not, which are printed on standard error, too.
    """
    saved, failed = {}, {}
    for option, write in writers.items():
        path = getattr(args, option)
        if path is None:
            continue
        try:
            write(path)
        except Exception as error:  # of any type: the other outputs must still be saved
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


def result_writers(estimator: Any, table: Any) -> dict[str, Callable[[Path], Any]]:
    """Return the writers of the model and of the labels, for `save_all`."""
    return {
        "output": estimator.save,
        "labels": lambda path: write_labels(path, estimator._labels, table.row_ids),
    }


def save_figure(figure: Any, path: Path, **options: Any) -> None:
    """Save a figure in the format of the file's suffix; the file appears when complete."""
    with replacing(path, "wb") as file:
        figure.savefig(file, format=path.suffix[1:].lower(), **options)


def write_labels(
    path: Path, labels: npt.NDArray[Any], row_ids: npt.NDArray[Any] | None, probabilities: Any = None
) -> None:
    """Write labels with the names of their rows, as CSV or .npy; the file appears when complete."""
    if path.suffix.lower() == ".npy":
        import numpy as np

        with replacing(path, "wb") as file:
            np.save(file, labels, allow_pickle=False)
    else:
        with replacing(path, "w") as file:
            write_csv(file, labels, row_ids, probabilities)


def write_csv(
    file: IO[str], labels: npt.NDArray[Any], row_ids: npt.NDArray[Any] | None, probabilities: Any = None
) -> None:
    """Write rows of row_id and label as CSV; row_id counts from 0 if rows have no names.

    With `probabilities`, pairs of cluster and probability follow, the most probable first. Names are guarded by
    `guarded`.
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
    """A text file that writes each CSV line with a plain newline at its end.

    The CSV writer quotes only the characters of its own line end. So it writes CR LF, and quotes both, and this class
    replaces the CR LF at the end of a line.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> None:
        """Write one line."""
        self._file.write(line.removesuffix(_LINE_END) + "\n")


def guarded(name: Any) -> Any:
    """Return a row's name as a cell that no spreadsheet reads as a formula.

    An apostrophe is put before a text that begins with ``=``, ``+``, ``-``, ``@``, a tab, a line break or an
    apostrophe; other values, also numbers, are returned unchanged. To read the names back, remove one leading
    apostrophe where there is one.

    Examples
    --------
    >>> from expfam.cli.outputs import guarded
    >>> [guarded(name) for name in ("=1+1", "plain", "'quoted", -1)]
    ["'=1+1", 'plain', "''quoted", -1]
    """
    is_risky = isinstance(name, str) and name.startswith((*_FORMULA_BEGINS, _GUARD))
    return _GUARD + name if is_risky else name


def ranked(probabilities: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return clusters and probabilities of each row, largest first.

    `probabilities` is a CSR array with an equal number of entries in each row.
    """
    import numpy as np

    shape = (probabilities.shape[0], -1)
    clusters, values = probabilities.indices.reshape(shape), probabilities.data.reshape(shape)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(clusters, order, axis=1), np.take_along_axis(values, order, axis=1)


@contextlib.contextmanager
def replacing(path: Path, mode: str, *, keep: bool = True) -> Iterator[IO[Any]]:
    """Open a new file that replaces `path` when it is complete; without `keep` it is removed.

    Until then the file is in the same folder under a random name, so no link and no other file can be overwritten.
    """
    stage = path.with_name(f".expfam-{os.urandom(16).hex()}")
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    with open(stage, mode.replace("w", "x"), **text) as file:  # "x" fails if the name exists, also as a link
        try:
            yield file
            file.close()
            if keep:
                os.replace(stage, path)
        finally:
            stage.unlink(missing_ok=True)
