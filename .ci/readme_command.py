"""Print the one shell command of a README's fenced blocks that contains a phrase; fail unless there is exactly one.

Usage: python readme_command.py README.md "python -m pytest"
"""

import re
import sys
from pathlib import Path

FENCE = re.compile(
    r"^(?P<fence>```+|~~~+)[ \t]*(?:bash|sh|shell|console)[ \t]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S
)


def commands(text):
    """Commands of all shell blocks: continued lines joined, prompts and comments dropped."""
    for match in FENCE.finditer(text):
        body = match["body"].replace("\\\n", " ")
        for line in body.splitlines():
            command = re.sub(r"^\s*\$\s+", "", line).strip()
            if command and not command.startswith("#"):
                yield command


def main(path, phrase):
    """Print the command, or exit with what was found."""
    found = sorted({command for command in commands(Path(path).read_text(encoding="utf-8")) if phrase in command})
    if len(found) != 1:
        sys.exit(f"{path} must have exactly one fenced shell command with {phrase!r}; found {len(found)}: {found}")
    print(found[0])


main(*sys.argv[1:])
