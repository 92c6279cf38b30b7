"""Print the one shell command of a README's fenced blocks that contains a phrase; fail unless there is exactly one.

Usage: python readme_command.py README.md PHRASE [MARKER]

With a marker only the block that follows the comment <!-- MARKER --> is read.
"""

import re
import sys
from pathlib import Path

FENCE = re.compile(
    r"^(?P<fence>```+|~~~+)[ \t]*(?:bash|sh|shell|console)[ \t]*\n(?P<body>.*?)^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


def marked(text, marker):
    """The text of the block after a comment; fails when comment or block is missing."""
    after = re.split(rf"<!--\s*{re.escape(marker)}\s*-->[ \t]*\n\s*", text)
    if len(after) != 2:
        sys.exit(f"there must be one comment <!-- {marker} -->; found {len(after) - 1}")
    block = FENCE.match(after[1])
    if block is None:
        sys.exit(f"no fenced shell block follows <!-- {marker} -->")
    return block.group()


def commands(text):
    """Commands of all shell blocks: continued lines joined, prompts and comments dropped."""
    for match in FENCE.finditer(text):
        body = match["body"].replace("\\\n", " ")
        for line in body.splitlines():
            command = re.sub(r"^\s*\$\s+", "", line).strip()
            if command and not command.startswith("#"):
                yield command


def main(path, phrase, marker=None):
    """Print the command, or exit with what was found."""
    text = Path(path).read_text(encoding="utf-8")
    found = sorted({c for c in commands(marked(text, marker) if marker else text) if phrase in c})
    if len(found) != 1:
        sys.exit(f"{path} must have exactly one fenced shell command with {phrase!r}; found {len(found)}: {found}")
    print(found[0])


main(*sys.argv[1:])
