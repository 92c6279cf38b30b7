"""Examples of pages, run as printed: what they print is compared word by word, and numbers up to rounding."""

from __future__ import annotations

import doctest
import logging
import re
from pathlib import Path

import pytest

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
PUNCTUATION = "()[]{},'"


class Printed(doctest.OutputChecker):
    """Comparison of what an example prints with what its page shows.

    Words are equal, and numbers agree to 5 %, because their last digits differ between instruction sets.
    """

    def check_output(self, want, got, optionflags):
        """Return whether two texts are alike."""
        wanted, found = want.split(), got.split()
        return len(wanted) == len(found) and all(map(are_alike, wanted, found))


def are_alike(wanted: str, found: str) -> bool:
    """Return whether two words are equal, or numbers with a point that nearly agree.

    Whole numbers are counts, which have to agree.
    """
    if wanted == found:
        return True
    bare = wanted.strip(PUNCTUATION), found.strip(PUNCTUATION)
    if not any("." in word for word in bare) or wanted.replace(bare[0], "", 1) != found.replace(bare[1], "", 1):
        return False
    try:
        return float(bare[1]) == pytest.approx(float(bare[0]), rel=0.05, abs=0.11)
    except ValueError:
        return False


def failures(page: Path) -> list[str]:
    """Run the examples of a page, one after the other; return what differs from the page.

    A level of logging that an example sets does not last: fits that tell of their stages enter more files.
    """
    names: dict = {"__name__": "__main__"}
    found: list[str] = []
    runner = doctest.DocTestRunner(checker=Printed(), optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    logger = logging.getLogger("expfam")
    level = logger.level
    for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
        line = page.read_text(encoding="utf-8")[: match.start(1)].count("\n")
        test = doctest.DocTestParser().get_doctest(match[1], names, f"{page.name}, block {number}", str(page), line)
        test.globs = names  # doctest copies them: later blocks know what earlier ones have made
        runner.run(test, out=found.append, clear_globs=False)
    logger.setLevel(level)
    return found
