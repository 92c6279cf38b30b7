"""Copy a checkout without what was built in it: files that git tracks or would, or all but the known outputs.

Usage: python copy_tree.py SOURCE TARGET
"""

import shutil
import subprocess
import sys
from pathlib import Path

OUTPUTS = ("build", "dist", "*.egg-info", "*.so", "*.pyd", "__pycache__", ".git", ".*_cache", ".hypothesis", ".venv")


def git_files(source):
    """Relative paths that belong to the checkout, or None where it is none."""
    command = ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return [name for name in done.stdout.decode().split("\0") if name and (source / name).is_file()]


def main(source, target):
    """Copy `source` to the new folder `target`."""
    source, target = Path(source).resolve(), Path(target)
    names = git_files(source) if (source / ".git").exists() else None
    if not names:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(*OUTPUTS))
        return
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / name, target / name)


main(*sys.argv[1:])
