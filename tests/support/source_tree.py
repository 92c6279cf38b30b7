"""Where the packages and the tests lie in a checkout."""

import ast
import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
HELPERS = [TESTS / name for name in ("support", "references", "robustness")]  # as `pythonpath` in pyproject.toml


def import_path(file):
    """PYTHONPATH of a process that imports a test file, given as its `__file__`, and what it imports."""
    return os.pathsep.join(str(folder) for folder in (Path(file).resolve().parent, *HELPERS))


def packages(root):
    """Package name to folder, as the build has it."""
    text = (root / "setup.py").read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOTS":
            roots = ast.literal_eval(node.value)
            break
    else:
        raise AssertionError("setup.py no longer has a literal ROOTS")
    found = {}
    for package, folder in roots.items():
        for init in sorted((root / folder).rglob("__init__.py")):
            inner = init.parent.relative_to(root / folder).parts
            if not {"templates", "reference"} & set(inner):
                found[".".join([package, *inner])] = init.parent.relative_to(root).as_posix()
    return found
