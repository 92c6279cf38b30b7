"""What the scripts of this folder take from the asv suite: `from generated import data`.

The suite lies in the folder above, which is no place that Python looks into by itself: import its modules here alone.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import data
from benchmarks.numpy_family import NumpyPoisson

__all__ = ["NumpyPoisson", "data"]
