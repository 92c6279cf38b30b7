"""Files that commands write: refused before any work where they cannot be, put in place when complete."""

import contextlib
import os

from expfam.cli.errors import UsageError

LABEL_SUFFIXES = (".csv", ".npy")


def check_outputs(args, kind="mixture"):
    """Refuse, before any work, outputs that could not be written at the end."""
    if args.output is not None:
        from expfam.model.archive import is_archive

        path = args.output
        is_empty = path.is_dir() and not any(path.iterdir())
        if path.exists() and not is_empty and not is_archive(path, kind):
            raise UsageError(f"--output: {path} exists and is no model of expfam; choose another directory")
    if args.labels is not None:
        check_file(args, args.labels, "--labels", LABEL_SUFFIXES)


def check_file(args, path, option, suffixes):
    """Refuse a file of another kind, without a directory, or the data file itself."""
    if path.suffix.lower() not in suffixes:
        raise UsageError(f"{option}: {path} must end in {' or '.join(suffixes)}")
    require_parent(path, option)
    if path.exists() and args.data.exists() and path.samefile(args.data):
        raise UsageError(f"{option}: {path} is the data file; choose another name")


def require_parent(path, option):
    """Refuse the path of a file that cannot be made there."""
    if not path.parent.is_dir():
        raise UsageError(f"{option}: there is no directory {path.parent}; make it first")
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a directory; give the name of a file")


def save_results(args, mixture, table):
    """Model and labels written where they were asked for: what was written, by name."""
    saved = {}
    if args.output is not None:
        mixture.save(args.output)
        saved["output"] = str(args.output)
    if args.labels is not None:
        write_labels(args.labels, mixture.labels_, table.row_ids)
        saved["labels"] = str(args.labels)
    return saved


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
    """Rows of row_id and label, then pairs of cluster and probability, the most probable first; rows count from 0."""
    import csv

    writer = csv.writer(file, lineterminator="\n")
    head = ["row_id", "label"]
    ids = range(len(labels)) if row_ids is None else row_ids.tolist()
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


def ranked(probabilities):
    """Clusters and probabilities of each row of a CSR array with as many entries in each, largest first."""
    import numpy as np

    shape = (probabilities.shape[0], -1)
    clusters, values = probabilities.indices.reshape(shape), probabilities.data.reshape(shape)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(clusters, order, axis=1), np.take_along_axis(values, order, axis=1)


@contextlib.contextmanager
def replacing(path, mode):
    """A file that takes its place only when it is complete."""
    stage = path.with_name(f".{path.name}.{os.getpid()}")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(stage, mode, **text) as file:
            yield file
        os.replace(stage, path)
    finally:
        stage.unlink(missing_ok=True)
