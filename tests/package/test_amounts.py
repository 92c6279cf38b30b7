"""A message that counts something says 1 cluster and 2 clusters: the noun comes from `counted`."""

import ast
import io
import itertools
import re
import tokenize
from pathlib import Path

import numpy as np
import pytest

from expfam.amounts import counted

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("expfam", "structures", "samplers", "plugins")
NOUNS = (
    "batches|bits|bytes|cells|chains|characters|children|chunks|classes|clusters|columns|components|counts|data"
    "|dimensions|distances|documents|draws|entries|features|files|groups|integers|items|keys|labels|leaves|levels"
    "|lines|lists|members|merges|models|moves|names|nodes|numbers|observations|outcomes|pairs|parameters|partitions"
    "|parts|points|replicates|roots|rows|samples|scores|slots|splits|starts|statistics|steps|subsets|sweeps|tables"
    "|times|tokens|topics|trees|values|words"
)
# words that may stand between the number and its noun
ADJECTIVES = (
    "binary|distinct|effective|empty|finite|identical|known|linked|live|long|missing|negative|new|non-negative"
    "|numbered|positive|shared|starting|stored|whole"
)
PLURAL = re.compile(rf" (?:(?:{ADJECTIVES}) )*(?:{NOUNS})\b")
CONSTANT = re.compile(r"_?[A-Z]+(_[A-Z]+)+|_TRIES")  # a limit that is written in the source, and is not 1
FRACTION = re.compile(r".*\.\d*[efg%]")  # a float takes the plural: 1.0 nats
NO_NUMBER = re.compile(r"__name__|\.name$|^name$|noun|^what$|\.shape$|data$|^keyword\(|^argument$|\.source$|^counted\(")
# What else stands before a plural, and why it is not one of 1.
EXCEPTIONS = {
    ("expfam/evaluation/calibration.py", "n"): "more than 1 in this branch",
    ("expfam/evaluation/certificate.py", "cold_run.n_steps"): "the second term of a sum",
    ("expfam/evaluation/posterior.py", "high"): "the end of a range",
    ("expfam/estimators/topic_merge.py", "len(models)"): "at least two models",
    ("expfam/io/readers.py", "X.dtype"): "the name of a type",
    ("expfam/io/readers.py", "wanted"): "2 or 3",
    ("expfam/io/readers.py", "bad[0] + 4"): "the number of a line",
    ("expfam/families/support.py", "bad"): "the number of an entry",
    ("plugins/laws/families.py", "name"): "the name of a function",
}


def sources():
    """All Python and Cython sources of the package, in order."""
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".py", ".pyx"} and "build" not in file.parts:
                yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")


def strings(text):
    """(line, source) of all strings; strings that follow one another are joined as Python joins them."""
    run = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            run.append(token)
        elif token.type not in (tokenize.NL, tokenize.COMMENT) and run:
            yield run[0].start[0], "\n".join(each.string for each in run)
            run = []


def plurals(text):
    """(line, number, words) of all numbers in f-strings that stand before a noun in the plural."""
    for line, source in strings(text):
        node = ast.parse(f"({source})", mode="eval").body
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for number, words in itertools.pairwise(parts):
            if not isinstance(number, ast.FormattedValue) or not isinstance(words, ast.Constant):
                continue
            found, spec = PLURAL.match(words.value), ast.unparse(number.format_spec or ast.Constant(""))
            if found and number.conversion == -1 and not FRACTION.match(spec):
                yield line, ast.unparse(number.value), found.group()


def faults(name, text):
    """'file:line: words' of each number that would be 1 before a noun in the plural."""
    return [
        f"{name}:{line}: {{{number}}}{words}"
        for line, number, words in plurals(text)
        if not CONSTANT.fullmatch(number) and not NO_NUMBER.search(number) and (name, number) not in EXCEPTIONS
    ]


def test_every_message_takes_its_nouns_from_counted():
    read = list(sources())
    assert len(read) > 300  # the reader sees the package
    assert sum("counted(" in text for _, text in read) > 100
    found = [fault for name, text in read for fault in faults(name, text)]
    assert not found, "write {counted(n, 'row')} for {n} rows:\n" + "\n".join(found)


WRONG = [
    'f"{n} clusters"',
    'f"of {len(x):,} distinct rows"',
    'raise ValueError(\n    f"there are {n}"\n    " names"\n)',
    'f"{n} of {X.shape[0]} non-negative integers"',
]
RIGHT = [
    "f\"{counted(n, 'cluster')} of {m}\"",
    'f"{x:.1f} times"',
    'f"at most {_MOST_LEVELS} levels"',
    'f"{name} values"',
    '"{n} clusters"',
]


@pytest.mark.parametrize("text", WRONG)
def test_a_plural_after_a_number_is_found(text):
    assert len(faults("a.py", f"\n{text}\n")) == 1


@pytest.mark.parametrize("text", RIGHT)
def test_other_words_are_not_found(text):
    assert faults("a.py", f"\n{text}\n") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, "row"), "1 row"),
        ((0, "row"), "0 rows"),
        ((-1, "row"), "-1 rows"),
        ((np.int64(1), "entry", "entries"), "1 entry"),
        ((2, "entry", "entries"), "2 entries"),
        ((np.float64(1.0), "row", None, ",.6g"), "1 row"),
        ((1.5, "row", None, ",.6g"), "1.5 rows"),
        ((12_000, "row", None, ","), "12,000 rows"),
        ((1, "row is", "rows are"), "1 row is"),
    ],
)
def test_the_noun_agrees_with_the_printed_number(arguments, expected):
    assert counted(*arguments) == expected
