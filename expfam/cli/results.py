"""Results as text for people and as one JSON object for programs."""

import json
import sys


def say(args, text):
    """Print text, unless JSON or nothing was asked for; what the output's encoding lacks is shown by its number."""
    if not (args.json or args.quiet):
        encoding = sys.stdout.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def print_json(args, result):
    """Print the result as one JSON object where that was asked for."""
    if args.json:
        print(json.dumps({"command": args.command, **result}, allow_nan=False))


def plain(value):
    """Numbers, strings, lists and dicts of a value that may hold arrays."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def short(value):
    """A value in a few characters."""
    if isinstance(value, list):
        return f"[{len(value)} values]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def shape_line(X):
    """Sizes of the data in words."""
    from scipy import sparse

    line = f"{X.shape[0]:,} rows, {X.shape[1]:,} columns"
    return f"{line}, {X.nnz:,} stored entries" if sparse.issparse(X) else line


def as_text(head, rows, *, left=False):
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


def table_scores(table, labels):
    """Scores against a file's labels, None where it has none or they are not classes."""
    known = table.labels
    return None if known is None or known.dtype.kind not in "biuUS" else class_scores(known, labels)


def class_scores(classes, labels):
    """Scores of labels against known classes: dict."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from expfam import purity, variation_of_information

    return {
        "normalized_mutual_information": float(normalized_mutual_info_score(classes, labels)),
        "adjusted_rand_index": float(adjusted_rand_score(classes, labels)),
        "variation_of_information_nats": variation_of_information(classes, labels),
        "purity": purity(classes, labels),
    }


def score_line(scores):
    """Scores in one line."""
    names = ("NMI {:.3f}", "ARI {:.3f}", "VI {:.3f} nats", "purity {:.3f}")
    return ", ".join(name.format(value) for name, value in zip(names, scores.values()))


def run_facts(mixture, seconds):
    """What a fit tells about itself: dict."""
    return {
        "n_clusters": int(mixture.n_components_),
        "log_joint": mixture.log_joint_,
        "n_steps": int(mixture.n_iter_),
        "seconds": seconds,
        "interrupted": bool(mixture.interrupted_),
    }


def run_line(mixture, seconds):
    """What a fit tells about itself, in one line."""
    state = "stopped  " if mixture.interrupted_ else "result   "
    return (
        f"{state} {mixture.n_components_} clusters, log joint {mixture.log_joint_:,.1f} nats, "
        f"{mixture.n_iter_} steps in {seconds:.3g} s"
    )


def exit_code(estimator, failed):
    """Exit code after a fit: 1 where an output was not saved, 130 after Ctrl-C, else 0."""
    if failed:
        return 1
    return 130 if estimator.interrupted_ else 0
