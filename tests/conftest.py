"""The tests are of the installed package; the checkout's own folder expfam/ is only a part of it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
