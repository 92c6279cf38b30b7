"""Every example of the user guide and of the pages for users of other tools prints what its page shows."""

from pathlib import Path

import pytest
from page_examples import BLOCK, are_alike, failures

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for pattern in ("index.md", "scikit_learn.md", "guide/*.md", "coming_from/*.md")
    for page in DOCS.glob(pattern)
    if BLOCK.search(page.read_text(encoding="utf-8"))
)


def test_there_is_a_page_with_examples_for_each_task():
    tasks = {"table", "texts", "embeddings", "counts", "yes_no", "groups", "large", "labels", "choose", "results"}
    assert {f"guide/{task}.md" for task in tasks} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_print_what_the_page_shows(name):
    assert "".join(failures(DOCS / name)) == ""


@pytest.mark.parametrize("text", [">>> 1 + 1\n3\n", ">>> print('a b')\na\n", ">>> 1 / 0\n", ">>> 2.0\n2.4\n"])
def test_an_example_that_prints_something_else_is_found(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```python\n>>> x = 1\n```\n\n```python\n>>> x\n1\n{text}```\n")
    assert "block 1" in "".join(failures(page))


@pytest.mark.parametrize(
    ("wanted", "found", "is_alike"),
    [
        ("3.51", "3.52", True),
        ("(0.9,", "(0.93,", True),
        ("12", "13", False),
        ("cook", "nurse", False),
        ("(0.9,", "0.9", False),
        ("100.0", "120.0", False),
    ],
)
def test_numbers_with_a_point_may_differ_by_rounding(wanted, found, is_alike):
    assert are_alike(wanted, found) == is_alike
