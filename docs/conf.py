"""Settings of the site: `sphinx-build -W --keep-going docs docs/_build` builds it."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
# the folder expfam/ of a checkout is only a part of the package: the installed one is imported
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from api_pages import escaped, write_api  # noqa: E402

project = "expfam"
author = "the expfam developers"
project_copyright = f"2026, {author}"
release = version_of("expfam")
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "first_minute", "gallery/*.py", "gallery/GALLERY_HEADER.rst"]
templates_path = ["_templates"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say types in words, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists its methods
numpydoc_xref_param_type = False

copybutton_prompt_text = ">>> |\\.\\.\\. |\\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "ignore_repr_types": r"matplotlib|expfam\.displays",
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "expfam"
html_static_path = ["_static"]
html_css_files = ["expfam.css"]
html_show_sourcelink = False
toc_object_entries_show_parents = "hide"  # the contents beside a page are narrow
html_theme_options = {
    "show_prev_next": False,
    "navigation_depth": 2,
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],  # the wide field would take a second line
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")  # galleries draw into files


def skip_foreign(app, what, name, member, skip, options):
    """Leave out members that other libraries define, such as those of scikit-learn's base classes."""
    home = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", None)
    return True if home is not None and not home.startswith("expfam") else None


def plain(app, what, name, obj, options, lines):
    """Let characters of docstrings stand for themselves, after numpydoc has read the sections."""
    lines[:] = escaped(lines)


def setup(app):
    """Write the list of all public names, and connect what reads their docstrings."""
    write_api(DOCS / "api" / "index.rst")
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", plain, priority=900)
