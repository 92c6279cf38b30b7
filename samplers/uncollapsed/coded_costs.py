"""What draws by products of integers cost: nanoseconds with AVX-512.

They are constants of the package: a choice by the clock would make results depend on the machine's load.
"""

from __future__ import annotations

ROW_COST = 700.0  # of a row that is coded and drawn
BOUND_COST = 0.0036  # of a bound, for each column
NARROW_COST = (5.0, 0.03)  # of a score in single precision, and for each column
SCORE_COST = (20.0, 0.09)  # of one in double precision
CODE_COST = 5.0  # of the code of a parameter
LISTED_COST = 30.0  # of a row whose list is looked at
READ_COST = 550.0  # of one that is scored among the clusters of its list
PAIR_COST = (8.0, 0.03)  # of comparing two clusters, and for each column
SCATTERED = 1.1  # of a row that is coded alone, beside one among others
