"""Which files of the package a call enters, in which order, and how often it goes from one to another.

`python tests/support/walk.py` prints the figures of some usual calls, of the class `Mixture`, and lines by room.
"""

import ast
import gc
import inspect
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = {
    "_family": "family",
    "weights_of": "weights",
    "kernel_of_rows": "sampler",
    "most_draws": "n_draws",
    "step_numbers": "n_steps and n_warmup",
    "follows_rule": "whether a rule ends the run",
}
BESIDE = ("samplers", "structures", "plugins")  # folders that stand beside expfam/ in the checkout, and in it installed


class Walk(NamedTuple):
    """What a call has entered.

    Attributes
    ----------
    files : tuple of str
        Python files of the package by first entry, from the top of the checkout.
    moves : Counter of (str, str)
        Calls that go from one file to another.
    """

    files: tuple[str, ...]
    moves: Counter

    @property
    def both_ways(self) -> list[tuple[str, str]]:
        """Pairs of files that call each other: most are a base class and its subclass, or a function and its caller."""
        return sorted((a, b) for a, b in self.moves if (b, a) in self.moves and a < b)

    @property
    def pairs(self) -> int:
        """Number of pairs of files that call each other both ways."""
        return len(self.both_ways)


def walk(call: Any) -> Walk:
    """Trace a call. Compiled functions are not seen."""
    entered, moves = {}, Counter()

    def file_of(frame):
        first, *rest = frame.f_globals.get("__name__", "").split(".")
        if first != "expfam" or not rest:
            return None
        return "/".join(rest if rest[0] in BESIDE else [first, *rest]) + ".py"

    def seen(frame, event, _):
        if event != "call" or (file := file_of(frame)) is None:
            return
        entered.setdefault(file)
        caller = frame.f_back
        while caller is not None and file_of(caller) is None:
            caller = caller.f_back
        before = None if caller is None else file_of(caller)
        if before is not None and before != file:
            moves[before, file] += 1

    gc.collect()  # what earlier calls have left behind is no part of this one, nor are the ends of its objects
    gc.disable()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Walk(tuple(entered), moves)


def asked(call: Any) -> Counter:
    """Count how often a call works out what a setting of an estimator stands for, by the setting."""
    found: Counter = Counter()

    def seen(frame, event, _):
        is_ours = event == "call" and frame.f_globals.get("__name__", "").startswith("expfam.")
        if is_ours and frame.f_code.co_name in QUESTIONS:
            found[QUESTIONS[frame.f_code.co_name]] += 1

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def usual_calls() -> dict[str, Any]:
    """Return calls by what they do; each was made once before, so that nothing is imported on the way."""
    from sklearn.datasets import load_iris

    from expfam import Mixture

    X = load_iris().data
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    calls = {
        "default fit of iris, K = 3": lambda: Mixture("gaussian_diag", 3, random_state=0).fit(X),
        "five plain Gibbs sweeps": lambda: Mixture(
            "gaussian_diag", 3, sampler="gibbs", start="random", n_steps=5, n_warmup=0, partition="last", random_state=0
        ).fit(X),
    }
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        frame = pd.DataFrame(holes, columns=list("abcd"))
        calls["default fit of a frame with holes"] = lambda: Mixture(random_state=0).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls.values():
            call()
    return calls


def imported_modules(path: Path) -> set[str]:
    """Return the modules of the package that a file imports while it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {name for name in found if name and name.startswith("expfam")}


def lines_by_room(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Return files and lines of the sources of each room, from the top of the checkout."""
    found: dict[str, tuple[int, int]] = {}
    for top in ("expfam", *BESIDE):
        for path in (root / top).rglob("*"):
            parts = path.relative_to(root).parts
            if path.suffix not in (".py", ".pyx", ".pxd", ".pyi") or "reference" in parts:
                continue
            room = "/".join(parts[: min(2, len(parts) - 1)])
            files, lines = found.get(room, (0, 0))
            found[room] = files + 1, lines + len(path.read_text(encoding="utf-8").splitlines())
    return dict(sorted(found.items()))


def main() -> None:
    """Print the tables."""
    from expfam import Mixture

    print(f"{'call':40} files  moves  pairs both ways")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in usual_calls().items():
            found = walk(call)
            print(f"{name:40} {len(found.files):5}  {found.moves.total():5}  {found.pairs:5}")
    own = [base for base in Mixture.__mro__ if base.__module__.startswith("expfam.")]
    methods = [name for name, value in inspect.getmembers(Mixture, callable) if not name.startswith("__")]
    settings, modules = inspect.signature(Mixture).parameters, imported_modules(ROOT / "expfam/estimators/mixture.py")
    print(f"Mixture: {len(own)} classes of the package, {len(methods)} methods with inherited ones")
    print(f"Mixture: {len(settings)} settings, {len(modules)} modules of the package imported")
    questions = asked(usual_calls()["default fit of iris, K = 3"])
    print("asked in one fit:", ", ".join(f"{name} {count}" for name, count in sorted(questions.items())))
    rooms = lines_by_room()
    print(f"\n{'room':40} files   lines")
    for room, (files, lines) in rooms.items():
        print(f"{room:40} {files:5}  {lines:6,}")
    files, lines = (sum(column) for column in zip(*rooms.values()))
    print(f"{'all':40} {files:5}  {lines:6,}")


if __name__ == "__main__":
    main()
