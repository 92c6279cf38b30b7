"""Certificates of the samplers for the families and weights of the package, as a page and a file of all numbers.

Run by hand: `python asv_bench/protocols/certificate.py`, or `python -m asv_bench.protocols.certificate` in the folder
of the project. The whole table takes some hours of one idle core. The file is written after each cell, so a run that
was stopped goes on with `--missing`, which makes only the cells that the file lacks or has of fewer replicates.
`--time-limit SECONDS` begins no cell after this time, and with 0 it makes the page alone. So `--missing --time-limit
3600`, run again and again, makes the whole table in parts.
`--only gibbs,poisson,dp` makes the cells whose names match, `*` matches any; the others keep what the file holds of
them, and the page says how many there are. Samplers that are wrong on purpose stand at the foot of the page, `--only
wrong` makes them: each must fail.

Each cell has 60 rows drawn from its model. The checks "rows", "truth" and "data" of `expfam.check_model` are made;
"cold" speaks of a run's length, not of a sampler. The exit status is 1 where a sampler is not exact or a wrong one
passes.

Topic chains and grouped chains have cells of their own, such as `--only topic_gibbs,words,equal` and `--only
'grouped_gibbs*,*,linked'`; see `certificate_groups.py` beside this file. `--only wrong` makes their faults too.
"""

import argparse
import json
import sys
import textwrap
import time
import warnings
from collections import Counter
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the wrong samplers stand there
sys.path.append(str(Path(__file__).resolve().parent))

import certificate_groups as of_groups
import wrong_samplers as wrong

from expfam import (
    Columns,
    DirichletProcess,
    MixtureModel,
    PitmanYor,
    SymmetricDirichlet,
    check_model,
    load_family,
)
from expfam.errors import ExpFamError
from expfam.evaluation.ranks import least_variation
from expfam.model.simulation import simulate
from expfam.samplers import (
    Canopy,
    CollapsedGibbs,
    Cycle,
    FastEx,
    HashProposal,
    RandomScan,
    SplitMerge,
    UncollapsedGibbs,
    UncollapsedMetropolis,
)

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ("rows", "truth", "data")
N_ROWS = 30  # of a simulated data set
SEED = 0
REPLICATES = 300

SAMPLERS = {
    "gibbs": CollapsedGibbs(),
    "gibbs_random_order": CollapsedGibbs(order="random"),
    "fast_ex": FastEx(mode="removed"),
    "fast_ex_crossfit": FastEx(mode="crossfit", n_blocks=3),
    "fast_ex_included": FastEx(mode="included"),
    "fast_ex_hash": FastEx(HashProposal(), mode="removed"),
    "fast_ex_int8": FastEx("int8", mode="removed"),
    "split_merge": SplitMerge(n_moves=10),
    "split_merge_lshsm": SplitMerge("lshsm", n_moves=10),
    "split_merge_minsm": SplitMerge("minsm", n_moves=10),
    "split_merge_sdds": SplitMerge("sdds", n_moves=10),
    "split_merge_rgsm": SplitMerge("rgsm", n_moves=10),
    "auto": Cycle(SplitMerge(every=5), CollapsedGibbs()),
    "random_scan": RandomScan(CollapsedGibbs(), FastEx(mode="removed")),
    "uncollapsed": UncollapsedGibbs(),
    "canopy_1": Canopy(variant=1),
    "canopy_2": Canopy(variant=2),
    "metropolis": UncollapsedMetropolis(redraw=False),
}
_REAL = np.array([[-1.0, 1.0], [1.0, -1.0], [0.5, 0.5], [-0.5, -0.5]])
_COUNTS = np.array([[0, 2, 1], [3, 0, 1], [1, 1, 4]])
FAMILIES = {
    "poisson": (load_family("poisson", shape=1.5, rate=0.4), _COUNTS),
    "multinomial": (load_family("multinomial", concentration=0.6), _COUNTS),
    "categorical": (load_family("categorical", concentration=0.6), np.array([[0, 1], [1, 2], [2, 0]])),
    "gaussian": (load_family("gaussian", mean=0.0, mean_strength=0.3, dof=5.0, scale=np.eye(2)), _REAL),
    "gaussian_diag": (load_family("gaussian_diag", mean=0.0, mean_strength=0.3, shape=2.0, rate=1.0), _REAL),
    "gaussian_spherical": (load_family("gaussian_spherical", mean=0.0, mean_strength=0.3, shape=2.0, rate=1.0), _REAL),
    "gaussian_zero": (load_family("gaussian_zero", dof=5.0, scale=np.eye(2)), _REAL),
    "lognormal": (load_family("lognormal", mean=0.0, mean_strength=0.3, shape=2.0, rate=1.0), np.exp(_REAL)),
    "columns": (
        Columns(
            [
                (load_family("gaussian_diag", mean=0.0, mean_strength=0.3, shape=2.0, rate=1.0), (0,)),
                (load_family("poisson", shape=1.5, rate=0.4), (1,)),
                (load_family("categorical", concentration=0.6), (2,)),
            ]
        ),
        np.array([[-1.0, 0.0, 1.0], [1.0, 3.0, 0.0], [0.5, 1.0, 2.0]]),
    ),
    "bernoulli": (load_family("bernoulli", a=0.7, b=0.9), np.array([[0, 1, 1, 0], [1, 0, 1, 0]])),
    "exponential": (load_family("exponential", a=2.5, b=1.5), np.abs(_REAL)),
    "geometric": (load_family("geometric", a=2.5, b=1.5), _COUNTS),
    "negative_binomial": (load_family("negative_binomial", a=2.5, b=1.5), _COUNTS),
    "von_mises_fisher": (
        load_family("von_mises_fisher", kappa=3.0, strength=1.5),
        np.array([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.48, 0.6, 0.64]]),
    ),
}
WEIGHTS = {"dp": DirichletProcess(0.9), "py": PitmanYor(0.9, 0.3), "finite": SymmetricDirichlet(4, 0.5)}

# name: (sampler, family, weights, check that must fail)
WRONG = {
    "draws of the prior": (wrong.PriorDraws(), "poisson", "dp", "truth"),
    "alpha times 1.4": (wrong.OtherWeights(strength=1.4), "poisson", "dp", "truth"),
    "alpha times 1.1": (wrong.OtherWeights(strength=1.1), "poisson", "dp", "rows"),
    "Pitman-Yor .15 for a Dirichlet process": (wrong.OtherWeights(discount=0.15), "poisson", "dp", "truth"),
    "mass of one more cluster": (wrong.PlainGibbs(fault=wrong.mass_of_one_more_cluster), "poisson", "finite", "rows"),
    "temperature off by 3 %": (wrong.PlainGibbs(fault=wrong.tempered), "poisson", "dp", "rows"),
    "FastEx, mode published": (FastEx(mode="published"), "poisson", "finite", "rows"),
    "sign of the proposal": (wrong.PlainMetropolis(sign=-1.0), "poisson", "dp", "rows"),
    "split-merge without rho": (wrong.PlainSplitMerge(forgets=True), "poisson", "dp", "rows"),
    "statistics out of date": (wrong.StaleStatistics(), "gaussian_diag", "dp", "truth"),
    "adaptation without end": (wrong.AdaptsForEver(), "poisson", "dp", "data"),
}


def cell(sampler, family, weights, checks=CHECKS, n_replicates=300):
    """What one certificate says, as plain values."""
    given, rows = FAMILIES[family]

    def certificate(**settings):
        model = MixtureModel(given, WEIGHTS[weights]).bind(rows)
        _, X = simulate(model, 60, np.random.default_rng(SEED))
        return check_model(model, X, sampler=sampler, **settings)

    return outcome(certificate, checks, n_replicates)


def cell_of_groups(sampler, data, variant, checks=CHECKS, n_replicates=300):
    """What one certificate of a topic chain or a grouped chain says, as plain values."""

    def certificate(**settings):
        return of_groups.certificate_of(sampler, data, variant, FAMILIES, **settings)

    return outcome(certificate, checks, n_replicates)


def outcome(certificate, checks, n_replicates):
    """What a certificate says, which a function makes, as plain values."""
    begin = time.process_time()
    result = {"replicates": n_replicates, "n_rows": N_ROWS, "seed": SEED, "version": version("expfam")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = certificate(checks=checks, n_replicates=n_replicates, n_rows=N_ROWS, random_state=SEED)
        except ExpFamError as error:  # a sampler that refuses the model
            return result | {"verdict": "refused", "reason": str(error)}
    made = [row for row in found.table if row.p is not None]
    verdict = {True: "passed", False: "NOT EXACT", None: "nothing checked"}[found.is_exact]
    least = min(made, key=lambda row: row.p, default=None)
    return result | {
        "verdict": verdict,
        "p": None if least is None else min(1.0, least.p * len(made)),
        "quantity": None if least is None else f"{least.check}: {least.quantity}",
        "skipped": {row.check: row.note for row in found.table if row.status == "skipped"},
        "seconds": round(time.process_time() - begin, 1),
        "says": found.verdict,
    }


def is_in_numpy(family):
    """Whether a family has no compiled components."""
    return not FAMILIES[family][0].is_compiled


def all_cells():
    """Names of all cells in the order in which they are made: those that take long come last."""
    families = sorted(FAMILIES, key=is_in_numpy)
    every = [(sampler, family, weights) for weights in WEIGHTS for sampler in SAMPLERS for family in families]
    return sorted(every, key=lambda names: is_in_numpy(names[1]))


def matches(only, names):
    """Whether a cell is asked for: each of its names matches its pattern."""
    return only is None or all(fnmatch(name, pattern) for name, pattern in zip(names, only))


def run(only, n_replicates, stored, is_missing_only, keep, time_limit=float("inf")):
    """Make the cells that are asked for, those that are wrong on purpose without --only, into the stored results.

    `keep` is called after each of them. No cell begins after `time_limit` seconds.
    """
    failures, end = [], monotonic() + time_limit
    for place, name, certified, is_wrong in asked(only):
        if is_missing_only and holds(stored.get(place, {}), name, n_replicates):
            continue
        if monotonic() >= end:
            return failures
        found = certified(n_replicates)
        stored.setdefault(place, {})[name] = found
        told(name, found)
        keep()
        if is_wrong and found["verdict"] != "NOT EXACT":
            failures.append((name, "passes although it is wrong"))
        elif not is_wrong and found["verdict"] == "NOT EXACT":
            failures.append(name.split(","))
    return failures


def asked(only):
    """What is asked for: place in the file, name, function of the replicates, and whether it is wrong on purpose."""
    for names in filter(partial(matches, only), all_cells()):
        made = partial(cell, SAMPLERS[names[0]], *names[1:], CHECKS)
        yield "cells", ",".join(names), made, False
    for names in filter(partial(matches, only), of_groups.all_cells(FAMILIES)):
        made = partial(cell_of_groups, of_groups.sampler_of(names[0]), *names[1:], CHECKS)
        yield "grouped", ",".join(names), made, False
    if only is None or only[0] == "wrong":
        for made, faults in ((cell, WRONG), (cell_of_groups, of_groups.WRONG)):
            for name, (kernel, data, variant, check) in faults.items():
                yield "wrong", name, partial(made, kernel, data, variant, [check]), True


def holds(stored, name, n_replicates):
    """Whether a result is there, from at least as many replicates; a refusal needs none."""
    found = stored.get(name)
    return found is not None and (found["verdict"] == "refused" or found["replicates"] >= n_replicates)


def told(name, found):
    """Print one result as it comes."""
    p = found.get("p")
    print(f"{name:42} {found['verdict']:16} {'' if p is None else f'{p:.1e}'} {found.get('reason', '')}", flush=True)


HEAD = """# Certificates of the samplers

Each cell is a call of `expfam.check_model` with the checks "rows", "truth" and "data": is the sampler exact? A number
is the smallest p-value over all quantities, times their number. A sampler that is right gives one below 1e-4 once in
ten thousand cells. The replicates of the cell stand in brackets; with "truth only" the two other checks could not be
made, because the sampler cuts the process off at numbered sticks, whose partitions cannot be enumerated. "-": the
sampler refuses the model. "·": nothing could be checked. Empty: not made yet.

**{n_made} of {n_all} cells have been made**, and {n_wrong} of {n_faults} samplers that are wrong on purpose.
{replicates}

To make one again: `python asv_bench/protocols/certificate.py --only gibbs,poisson,dp`. All numbers, seeds and versions
are in [certificate.json](../asv_bench/certificate.json).
"""


def page(stored):
    """The page of all results."""
    n_all = len(SAMPLERS) * len(FAMILIES) * len(WEIGHTS)
    cells, wrongs = stored["cells"], stored["wrong"]
    text = replicates_of(cells.values())
    n_faults = len(WRONG) + (len(of_groups.WRONG) if any(name in wrongs for name in of_groups.WRONG) else 0)
    lines = [HEAD.format(n_made=len(cells), n_all=n_all, n_wrong=len(wrongs), n_faults=n_faults, replicates=text)]
    for weights, prior in WEIGHTS.items():
        made = [f for f in FAMILIES if any(f",{f},{weights}" in name for name in cells)]
        if not made:
            continue
        lines += [f"## {prior!r}", "", "| sampler | " + " | ".join(made) + " |", "|---" * (len(made) + 1) + "|"]
        for sampler in SAMPLERS:
            found = [cells.get(f"{sampler},{family},{weights}") for family in made]
            if any(found):
                lines.append(f"| {sampler} | " + " | ".join(map(shown, found)) + " |")
        lines.append("")
    lines += of_groups.section(stored, shown)
    lines += ["## Wrong on purpose", "", "Each must fail: the reader sees that it can.", ""]
    lines += ["| fault | replicates | verdict | p | found by |", "|---|---|---|---|---|"]
    for name, found in wrongs.items():
        lines.append(
            f"| {name} | {found['replicates']} | {found['verdict']} | {found['p']:.1e} | {found['quantity']} |"
        )
    every = [*cells.values(), *stored.get("grouped", {}).values(), *wrongs.values()]
    seconds = sum(found.get("seconds", 0.0) for found in every)
    versions = sorted({found["version"] for found in every})
    lines += [
        "",
        f"Version {', '.join(versions)}; {seconds:.0f} CPU seconds in all; seed {SEED}; {N_ROWS} rows in each",
    ]
    return "\n".join([*lines[:-1], lines[-1] + " simulated data set.", ""])


def replicates_of(found):
    """How many replicates the cells have, and what as many of them find; in words."""
    made = [each for each in found if each.get("p") is not None]
    counts = sorted(Counter(each["replicates"] for each in made).items())
    if not counts:
        return "No cell has a result."
    numbers = ", ".join(f"{n_cells} of {n} replicates" for n, n_cells in counts)
    n_not_exact = sum(each["verdict"] == "NOT EXACT" for each in made)
    fewest = counts[0][0]
    small, large = (least_variation(n, 3e-6) for n in (fewest, REPLICATES))
    text = (
        f"{n_not_exact} of {len(made)} cells with a result are not exact. Each replicate is a chain for 'truth' and for"
        f" 'data', and 20 starts for 'rows'. Cells: {numbers}. Few replicates find gross errors alone: {fewest} chains"
        f" find ranks whose law is off by a total variation of {small:.2f}, {REPLICATES} of {large:.2f}."
        " `--missing --replicates 300` makes the cells that have fewer again."
    ).replace("'", '"')
    return textwrap.fill(text, 120, break_on_hyphens=False)


def shown(found):
    """One cell of the table."""
    if found is None:
        return ""
    if found["verdict"] == "refused":
        return "-"
    if found["p"] is None:
        return "·"
    left = [check for check in CHECKS if check not in found.get("skipped", {})]
    said = f"{found['replicates']}" if left == list(CHECKS) else f"{found['replicates']}, {' and '.join(left)} only"
    p = f"**{found['p']:.0e}**" if found["verdict"] == "NOT EXACT" else f"{found['p']:.2g}"
    return f"{p} ({said})"


def written(stored):
    """Return what is stored as JSON with one line a cell."""
    parts = []
    for kind, cells in stored.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(cell)}" for name, cell in cells.items()]
        body = "\n" + ",\n".join(lines) + "\n " if lines else ""
        parts.append(f" {json.dumps(kind)}: {{{body}}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def parser():
    """Options."""
    command = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    command.add_argument("--only", metavar="SAMPLER,FAMILY,WEIGHTS", help="names with *; or wrong")
    command.add_argument("--missing", action="store_true", help="only what the file lacks, or has of fewer replicates")
    command.add_argument("--replicates", type=int, default=REPLICATES, help="of each check; default: %(default)s")
    command.add_argument(
        "--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="begin no cell after it"
    )
    command.add_argument("--json", type=Path, default=ROOT / "asv_bench" / "certificate.json")
    command.add_argument("--page", type=Path, default=ROOT / "docs" / "certificate.md")
    return command


def main(arguments=None):
    """Run the command; return the exit status."""
    command = parser()
    args = command.parse_args(arguments)
    only = None if args.only is None else args.only.split(",")
    if only is not None and only != ["wrong"] and len(only) != 3:
        command.error("--only takes three names, such as fast_ex,poisson,dp")
    stored = {"cells": {}, "wrong": {}} | (json.loads(args.json.read_text()) if args.json.exists() else {})

    def keep():
        args.json.write_text(written(stored))
        args.page.write_text(page(stored))

    failures = run(only, args.replicates, stored, args.missing, keep, args.time_limit)
    made = [*stored["cells"], *stored.get("grouped", {})]
    if only not in (None, ["wrong"]) and not any(matches(only, name.split(",")) for name in made):
        command.error(f"no cell is called {args.only}")
    keep()
    for failure in failures:
        print("FAILED", *failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
