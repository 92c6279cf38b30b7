"""The tables and figures of the five papers, beside what the package gives: docs/reproduced.md.

Run by hand: `python asv_bench/protocols/reproduce.py [fastex|canopy|sparse|splitmerge|bhc] --data DIR [--quick]`.

Each row of the page is measured by itself and kept as a file of its own, asv_bench/reproduced/ROW.json; the page and
its pictures are made of these files. Without a name all papers are made, in two hours on two idle cores; --quick takes
minutes. --out FOLDER keeps results, page and pictures there instead, and leaves those of the project alone. DIR holds
text/*.npz and dense/*.npz, as for real_data.py. One BLAS thread is used, and CPU seconds are those of the process.
"""

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import reproduce_bhc
import reproduce_canopy
import reproduce_fastex
import reproduce_sparse
import reproduce_splitmerge
from reproduce_page import PAPERS, write
from reproduce_row import Run, measured

ROOT = Path(__file__).resolve().parents[2]
PARTS = (reproduce_fastex, reproduce_canopy, reproduce_sparse, reproduce_splitmerge, reproduce_bhc)
ROWS = [row for part in PARTS for row in part.ROWS]


def stored(folder):
    """Results by the name of the row, those that are there."""
    paths = {row.name: folder / f"{row.name}.json" for row in ROWS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def chosen(paper, only):
    """Rows of a paper, or of all; those that are asked for by name."""
    names = {row.name for row in ROWS}
    if unknown := sorted(set(only or ()) - names):
        raise SystemExit(f"--only: there is no row {unknown[0]!r}; rows are {', '.join(sorted(names))}")
    return [row for row in ROWS if paper in (None, row.paper) and (only is None or row.name in only)]


def places(out):
    """Folders of results and of pictures, and the page."""
    if out is None:
        return (
            ROOT / "asv_bench" / "reproduced",
            ROOT / "docs" / "images" / "reproduced",
            ROOT / "docs" / "reproduced.md",
        )
    return out / "results", out / "images" / "reproduced", out / "reproduced.md"


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("paper", nargs="?", choices=list(PAPERS), help="one paper; all if left out")
    command.add_argument(
        "--data", type=Path, metavar="DIR", help="folder with text/ and dense/; without it some rows are left out"
    )
    command.add_argument("--quick", action="store_true", help="small sizes, minutes in all")
    command.add_argument("--out", type=Path, metavar="FOLDER", help="keep everything there")
    command.add_argument("--only", nargs="+", metavar="ROW", help="rows by name")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--rows", type=int, metavar="N", help="of the rows on disk in canopy-figure5")
    command.add_argument("--clusters", type=int, metavar="K", help="of the same row")
    command.add_argument(
        "--rows-in", type=Path, metavar="FOLDER", help="keep the file of these rows there, and take it if it is there"
    )
    command.add_argument(
        "--kept", type=Path, metavar="FILE", help="for the same row: take what a run of scale.py --json has found"
    )
    command.add_argument("--note", metavar="TEXT", help="what readers of the page must know of this run")
    command.add_argument("--page", action="store_true", help="measure nothing: page and pictures of the kept results")
    return command


def main(arguments=None):
    """Exit status: 1 where a row failed."""
    args = parser().parse_args(arguments)
    folder, images, page = places(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    if args.page:
        write(stored(folder), ROWS, page, images)
        return 0
    if args.data is not None and not args.data.is_dir():
        raise SystemExit(f"--data {args.data}: there is no such folder")
    failed = []
    for row in chosen(args.paper, args.only):
        if row.needs_data and args.data is None:
            print(f"{row.name}: left out, for want of --data\n", flush=True)
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                how = Run(args.data, args.quick, args.seed, args.rows, args.clusters, args.rows_in, args.kept)
                found = measured(row, how)
        except (Exception, SystemExit) as error:  # the others go on, and the status tells
            failed.append(f"{row.name}: {type(error).__name__}: {error}")
            print(f"FAILED {failed[-1]}", flush=True)
            continue
        if args.note:
            found["says"] = f"{found.get('says', '')} {args.note}".strip()
        (folder / f"{row.name}.json").write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        tell(row, found)
    write(stored(folder), ROWS, page, images)
    return 1 if failed else 0


def tell(row, found):
    """Print a row as it comes."""
    print(f"{row.name}: {row.title} ({found['CPU seconds']:g} CPU s)")
    for line in found["table"]:
        verdict = f"  DIFFERS: {line['reason']}" if line["differs"] else ""
        print(f"  {line['what']}: paper {line['paper']}, ours {line['ours']}{verdict}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
