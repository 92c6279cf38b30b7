"""Modules of the protocols, which are scripts: imported for a test, and forgotten after it."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "asv_bench" / "protocols"


@contextmanager
def imported(name, *others):
    """Import a protocol; `others` are modules that it imports, which stand elsewhere under the same names."""
    names = (name, *others, "reports", "real_data", "benchmarks", "benchmarks.data")
    before = {each: sys.modules.pop(each, None) for each in names}
    sys.path.insert(0, str(BENCH))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCH))
        for each, module in before.items():
            sys.modules.pop(each, None)
            if module is not None:
                sys.modules[each] = module
