"""Judge two asv runs.

Run by hand: `python asv_bench/protocols/gate.py BASE NEW` after `asv run BASE^!` and `asv run NEW^!` on one machine.

Times of less than 20 ms are noise on shared machines and are not judged; the others fail where NEW takes more than
FACTOR times as long as BASE and the two intervals of asv's statistics do not meet. Benchmarks that failed in NEW and
worked in BASE fail the gate, and so does a comparison in which nothing was judged: silence is no proof. The exit status
is 0 or 1.
"""

import argparse
import itertools
import sys
from pathlib import Path

from asv.results import iter_results
from reports import print_table

RESULTS = Path(__file__).resolve().parents[1] / "results"


def measured(folder, commit):
    """{(benchmark, parameters): (seconds or None, interval)} of the timed benchmarks of a commit, all machines."""
    found = {}
    for result in iter_results(str(folder)):
        if not result.commit_hash.startswith(commit):
            continue
        for name in result.get_all_result_keys():
            if not name.rpartition(".")[2].startswith("time_"):
                continue
            params = result.get_result_params(name)
            values, stats = result.get_result_value(name, params), result.get_result_stats(name, params)
            for case, value, stat in zip(itertools.product(*params) or [()], values, stats or [None] * len(values)):
                interval = (stat["ci_99_a"], stat["ci_99_b"]) if stat else (value, value)
                found[name, case] = (None if value is None or value != value else value, interval)
    return found


def judged(base, new, *, factor, least):
    """Rows for benchmarks above the least time, slowest ratio first; a failure has no ratio."""
    rows = []
    for key in sorted(set(base) & set(new)):
        (before, was), (after, now) = base[key], new[key]
        if before is None or before < least:
            continue
        apart = after is not None and now[0] > was[1]
        verdict = "failed" if after is None else "slower" if after > factor * before and apart else "ok"
        rows.append(
            {
                "benchmark": f"{key[0]}({', '.join(key[1])})",
                "before s": before,
                "after s": after,
                "ratio": None if after is None else after / before,
                "verdict": verdict,
            }
        )
    return sorted(rows, key=lambda row: -(row["ratio"] or float("inf")))


def main(arguments=None):
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="commit, or its first digits")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--factor", type=float, default=1.25)
    parser.add_argument("--least", type=float, default=0.02, metavar="SECONDS")
    args = parser.parse_args(arguments)
    rows = judged(
        measured(args.results, args.base), measured(args.results, args.new), factor=args.factor, least=args.least
    )
    if not rows:
        print(f"nothing to judge: no benchmark of {args.least} s or more has results for both commits", file=sys.stderr)
        return 1
    print_table(rows)
    bad = [row for row in rows if row["verdict"] != "ok"]
    print(f"{len(rows)} judged, {len(bad)} not passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
