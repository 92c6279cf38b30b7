"""Prose of the package keeps to the terms of docs/glossary.md, and every summary of a docstring is short."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("expfam", "structures", "samplers", "plugins")
GLOSSARY = "docs/glossary.md"  # explains the words that are not used
BANNED = {"door", "doors", "mover", "movers", "straggler", "stragglers", "desk", "desks", "lone", "walker", "walkers"}
LONGEST = 90  # characters of a summary

CODE = {".py", ".pyx", ".pxd", ".pyi", ".h"}
PROSE = {".md", ".toml"}
NOT_OURS = {"build", "dist", "tests", "__pycache__"}
MADE = {"_build", "api", "auto_gallery"}  # by sphinx


def files(root):
    """All files of the package that hold prose, in order."""
    for folder in SOURCES:
        for file in sorted((root / folder).rglob("*")):
            parts = file.relative_to(root).parts
            if file.suffix in CODE | PROSE and not NOT_OURS & set(parts) and file.is_file():
                yield file
    yield root / "README.md"
    for page in sorted((root / "docs").rglob("*.md")):
        if page != root / GLOSSARY and not MADE & set(page.relative_to(root).parts):
            yield page


# ---- words -----------------------------------------------------------------------------------------------------------

# a word of prose, or one part of an identifier: tree_mover and TreeMover both hold "mover"
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# the two words may be joined in an identifier or stand on two lines
TANGENTS = re.compile(r"(?<![A-Za-z])urn[\s_#*-]*tangents?(?![a-z])", re.IGNORECASE)
AUTHOR = re.compile(r"\bWalker\b")


def banned_places(text):
    """Offsets of the banned words of a text."""
    authors = {match.start() for match in AUTHOR.finditer(text)}
    found = [
        match.start()
        for match in PIECE.finditer(text)
        if match.group().lower() in BANNED and match.start() not in authors
    ]
    return sorted([*found, *(match.start() for match in TANGENTS.finditer(text))])


def lines_with_banned_words(name, text):
    """ "file:line: text" of each line with a banned word."""
    lines = text.split("\n")
    numbers = dict.fromkeys(text.count("\n", 0, place) for place in banned_places(text))
    return [f"{name}:{number + 1}: {lines[number].strip()}" for number in numbers]


# ---- summaries -------------------------------------------------------------------------------------------------------


def summary(docstring):
    """First paragraph of a docstring on one line."""
    return " ".join(re.split(r"\n[ \t]*\n", docstring.strip(), maxsplit=1)[0].split())


def python_docstrings(text):
    """(line, docstring) of a module, its classes and its functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


COMMENT = re.compile(r"#[^\n]*")
TRIPLE = re.compile(r'^[ \t]*[rRuU]?("""|\'\'\')(.*?)\1', re.DOTALL | re.MULTILINE)
HEADER = re.compile(
    r"[ \t]*(?:async[ \t]+def|def|cdef(?![ \t]+extern)|cpdef|class|property)\b"
)  # an extern block holds C
OPENING, CLOSING = re.compile(r"[(\[{]"), re.compile(r"[)\]}]")


def follows_header(before):
    """Whether a text ends with the head of a function, class or property, or holds comments alone."""
    depth, is_head = 0, False
    for line in reversed(before.split("\n")):
        code = COMMENT.sub("", line).rstrip()
        if not code:
            continue
        if not is_head and not code.endswith(":"):
            return False
        is_head = True
        depth += len(CLOSING.findall(code)) - len(OPENING.findall(code))
        if depth <= 0:  # the line that opens all parentheses of the head
            return HEADER.match(code) is not None
    return not is_head


def cython_docstrings(text):
    """(line, docstring) of a Cython source: of the file, its classes, functions and properties."""
    place = 0
    while match := TRIPLE.search(text, place):
        if follows_header(text[: match.start()]):
            yield text.count("\n", 0, match.start()) + 1, match.group(2)
        place = match.end()


def long_summaries(name, text):
    """ "file:line: text" of each docstring whose summary is too long."""
    reader = python_docstrings if name.endswith(".py") else cython_docstrings
    found = ((line, summary(docstring)) for line, docstring in reader(text))
    return [f"{name}:{line}: ({len(words)} characters) {words}" for line, words in found if len(words) > LONGEST]


# ---- the package -----------------------------------------------------------------------------------------------------


def read(root):
    """(name relative to the checkout, text) of all files that hold prose."""
    for file in files(root):
        yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")


def test_the_package_uses_the_words_of_the_glossary():
    offenders = [line for name, text in read(ROOT) for line in lines_with_banned_words(name, text)]
    assert not offenders, f"{len(offenders)} lines with words of our own, see {GLOSSARY}:\n" + "\n".join(offenders)


def test_every_summary_is_short():
    sources = [(name, text) for name, text in read(ROOT) if name.endswith((".py", ".pyx"))]
    assert len(sources) > 100  # the reader sees the package
    offenders = [line for name, text in sources for line in long_summaries(name, text)]
    assert not offenders, f"{len(offenders)} summaries over {LONGEST} characters:\n" + "\n".join(offenders)


def test_the_glossary_is_in_alphabetical_order_and_names_the_banned_words():
    page = (ROOT / GLOSSARY).read_text(encoding="utf-8")
    tables = [re.findall(r"^\| ([^|]+?) \|", part, flags=re.MULTILINE)[1:] for part in page.split("\n## ")[2:4]]
    terms, unused = tables
    assert len(terms) > 50
    assert terms == sorted(terms, key=str.lower)
    assert {"door", "mover", "straggler", "desk", "urn tangents"} <= set(unused)


# ---- the detector itself ---------------------------------------------------------------------------------------------

WITH_BANNED = [
    "The back door of a kernel.",
    "Doors stay open.",
    "class TreeMover:",
    "def tree_mover(x):",
    "MOVERS = 3",
    "stragglers_of(row)",
    'raise ValueError("a Straggler of row 3")',
    "# kept on the desk",
    "int pairs_data  # whether lone data are kept",
    "struct DeskState:",
    "a random walker",
    "class TreeWalker:",
    "from urn tangents",
    "from urn\n# tangents",
    "class UrnTangents:",
]
WITHOUT_BANNED = [
    "Alias tables (Walker 1977; Vose 1991).",
    "A clone stands alone; indoors; removers; desktop; cyclone.",
    "The tangents of the urn.",
    "A burn tangents nothing.",
    "lonely pedestrians",
]


@pytest.mark.parametrize("text", WITH_BANNED)
def test_a_banned_word_is_found(text):
    assert [line.split(": ")[0] for line in lines_with_banned_words("a.py", f"\n{text}\n")] == ["a.py:2"]


@pytest.mark.parametrize("text", WITHOUT_BANNED)
def test_other_words_are_not_found(text):
    assert lines_with_banned_words("a.py", text) == []


def test_a_banned_word_is_found_in_every_kind_of_file(tmp_path):
    wrong = ["expfam/a.py", "structures/b/c.pyx", "samplers/d.pxd", "plugins/e.pyi", "plugins/f/g.md", "docs/h.md"]
    right = [GLOSSARY, "expfam/build/a.py", "tests/a.py", "expfam/a.c"]
    for name in [*wrong, *right, "README.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# a door\n")
    found = [line for name, text in read(tmp_path) for line in lines_with_banned_words(name, text)]
    assert found == [f"{name}:1: # a door" for name in [*sorted(wrong[:1]), *wrong[1:5], "README.md", "docs/h.md"]]


SHORT = "Return " + "a" * (LONGEST - 8) + "."
LONG = f"{SHORT}."

PYTHON = [
    '"""{}"""\n',
    'def f():\n    """{}\n\n    More of it.\n    """\n',
    'class A:\n    """{}"""\n',
    'class A:\n    def f(self):\n        """{}"""\n',
    'def f():\n    def g():\n        """{}"""\n',
    'async def f():\n    r"""{}"""\n',
    "def f():\n    '{}'\n",
]
CYTHON = [
    '"""{}"""\n\ncimport numpy\n',
    '# distutils: language = c\n\n"""{}"""\n',
    'def f(int x):\n    """{}"""\n',
    'cdef int f(int x) except -1 nogil:\n    """{}\n\n    More of it.\n    """\n',
    'cdef inline double f(\n    double *x,  # (n,\n    int n,\n) noexcept nogil:\n    """{}"""\n',
    'cpdef f(x):  # of python\n    """{}"""\n',
    '@final\ncdef class A:\n    """{}"""\n',
    'cdef class A:\n    property x:\n        """{}"""\n',
    "cdef class A:\n    def f(self):\n        r'''{}'''\n",
]


@pytest.mark.parametrize(("name", "text"), [("a.py", text) for text in PYTHON] + [("a.pyx", text) for text in CYTHON])
def test_a_long_summary_is_found(name, text):
    (found,) = long_summaries(name, text.format(LONG))
    assert found.endswith(LONG)
    number = int(found.split(":")[1])
    assert LONG in text.format(LONG).split("\n")[number - 1]
    assert long_summaries(name, text.format(SHORT)) == []


@pytest.mark.parametrize("name", ["a.py", "a.pyx"])
def test_the_lines_of_a_summary_count_together(name):
    text = 'def f():\n    """Return a\n    {}.\n\n    More.\n    """\n'
    assert len(long_summaries(name, text.format("a " * 50))) == 1
    assert long_summaries(name, text.format("a " * 30)) == []


@pytest.mark.parametrize(
    "text",
    [
        'cdef extern from *:\n    """\n    static int f(void);  // {}\n    """\n',
        'x = """{}"""\n',
        'def f():\n    return g(\n        """{}""",\n    )\n',
        'def f():\n    """Short."""\n    x = 1\n    """{}"""\n',
    ],
)
def test_other_strings_of_cython_are_no_docstrings(text):
    assert long_summaries("a.pyx", text.format(LONG)) == []
