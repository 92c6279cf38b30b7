"""Loops that have an instance for AVX-512 use its registers: else the compiler has left them one number at a time.

Run: `python .ci/vectors.py FOLDER`, with a folder that holds compiled modules. It reads them by objdump, of the package
binutils, which comes with gcc. The exit status is 1 where a loop uses no vector registers, unless it is known to be
scalar.
"""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

LEAST_INSTRUCTIONS = 16  # shorter functions call others
SCALAR = {  # they store to places that follow from the numbers, or collect bits
    "expfam_add_listed": "adds to listed places",
    "expfam_byte_add_32": "adds rows of a table of 256",
    "expfam_byte_add_64": "adds rows of a table of 256",
    "expfam_byte_add_real": "adds rows of a table of 256",
    "expfam_panel_invert": "a panel of eight columns",
    "expfam_panel_square": "a panel of eight columns",
    "expfam_rows_listed": "reads listed rows",
    "expfam_sign_bits_32": "collects 64 bits",
    "expfam_sign_bits_64": "collects 64 bits",
    "expfam_sign_bits_real": "collects 64 bits",
}


def instances(module):
    """Name of each AVX-512 instance in a module: its instructions, and how many of them use wide registers."""
    text = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", str(module)], capture_output=True, text=True, check=True
    ).stdout
    found, name = {}, None
    for line in text.splitlines():
        if begin := re.match(r"[0-9a-f]+ <(\w+)_avx512[.\w]*>:", line):
            name = begin[1]
        elif line.endswith(">:"):
            name = None
        elif name and ":\t" in line:
            n, wide = found.get(name, (0, 0))
            found[name] = (n + 1, wide + ("%zmm" in line))
    return found


def main():
    """Exit status."""
    modules = sorted(Path(sys.argv[1]).rglob("*.so"))
    if shutil.which("objdump") is None:
        print("objdump is not installed, which reads the compiled loops: install binutils")
        return 1
    loops = {}
    for module in modules:
        for name, (n, wide) in instances(module).items():
            if n >= LEAST_INSTRUCTIONS:
                loops.setdefault(name, []).append((wide, module.name.split(".")[0]))
    scalar = {name: [where for wide, where in each if not wide] for name, each in loops.items()}
    wrong = {name: where for name, where in scalar.items() if where and name not in SCALAR}
    print(f"{len(modules)} modules, {len(loops)} loops with an AVX-512 instance, {len(SCALAR)} known to be scalar")
    if not loops and platform.machine() == "x86_64":
        print("no loop is found: are the modules stripped?")
        return 1
    for name, where in sorted(wrong.items()):
        print(f"{name}, in {', '.join(sorted(set(where)))}: no vector registers")
    return 1 if wrong or not modules else 0


if __name__ == "__main__":
    sys.exit(main())
