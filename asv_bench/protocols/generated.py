"""The generated data of the asv suite, for the scripts of this folder: `from generated import data`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import data

__all__ = ["data"]
