"""Check what the sdist and the wheel of a folder hold.

Usage: python check_dist.py DIST
"""

import sys
import tarfile
import zipfile
from pathlib import Path


def only(folder, pattern):
    """The one file of a pattern."""
    found = sorted(Path(folder).glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder} must hold one {pattern}; found {[file.name for file in found]}")
    return found[0]


def wheel_faults(names, root):
    """What is wrong with the names in a wheel, against the checkout it was made from."""
    top = {name.split("/")[0] for name in names}
    extra = sorted(name for name in top if name != "expfam" and not name.endswith(".dist-info"))
    if extra:
        yield f"top-level names beside expfam: {extra}"
    for suffix in (".pyx", ".c", ".cpp"):
        sources = [name for name in names if name.endswith(suffix)]
        if sources:
            yield f"{suffix} files: {sources}"
    for suffix in (".pxd", ".pyi", ".h", "expfam/py.typed"):
        if not any(name.endswith(suffix) for name in names):
            yield f"no {suffix}"
    templates = (root / "plugins" / "templates").rglob("*")
    data = {
        f"expfam/{file.relative_to(root).as_posix()}"
        for file in templates
        if file.suffix in {".py", ".toml", ".md", ".in"}
    }
    if not data or data - set(names):
        yield f"templates missing: {sorted(data - set(names)) or 'all'}"
    compiled = {name.split(".")[0] for name in names if name.endswith((".so", ".pyd"))} - {"expfam/_cyutility"}
    if not compiled:
        yield "no compiled module"
    places = {"expfam": "expfam", "structures": "expfam/structures", "samplers": "expfam/samplers"}
    stubs = {
        f"{place}/{file.relative_to(root / folder).as_posix()}"
        for folder, place in places.items()
        for file in (root / folder).rglob("*.pyi")
    }
    if stubs - set(names):
        yield f"stubs missing: {sorted(stubs - set(names))}"


def sdist_faults(names, root):
    """What is wrong with the names in an sdist, against the checkout it was made from."""
    names = {name.split("/", 1)[1] for name in names if "/" in name}
    generated = sorted(name for name in names if name.endswith((".c", ".cpp", ".so", ".pyd")))
    # plugins/reference holds whole distributions, C sources written by hand included
    generated = [name for name in generated if not name.startswith("plugins/reference/")]
    if generated:
        yield f"generated files: {generated}"
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "setup.py", "tests/conftest.py"}
    for folder in ("expfam", "structures", "samplers", "plugins", "tests", "asv_bench", "docs"):
        for file in (root / folder).rglob("*"):
            if file.suffix in {".py", ".pyx", ".pxd", ".pyi", ".h", ".toml", ".md"} and "build" not in file.parts:
                wanted.add(file.relative_to(root).as_posix())
    if wanted - names:
        yield f"missing: {sorted(wanted - names)}"


def main(folder):
    """Print sizes, or exit with every fault."""
    sdist, wheel = only(folder, "*.tar.gz"), only(folder, "*.whl")
    root = Path(__file__).resolve().parents[1]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    faults = [f"{wheel.name}: {fault}" for fault in wheel_faults(names, root)]
    with tarfile.open(sdist) as archive:
        members = archive.getnames()
    faults += [f"{sdist.name}: {fault}" for fault in sdist_faults(members, root)]
    if faults:
        sys.exit("\n".join(faults))
    for file in (wheel, sdist):
        print(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB, contents as they should be")


main(*sys.argv[1:])
