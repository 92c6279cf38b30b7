"""Strangers' distributions built and installed away from the checkout, in environments of their own."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


def run(*command, cwd, fails=False):
    """Output of a command; the whole of it is shown where its success is not the expected one."""
    # Nothing of this process's import path may help, and nothing may be fetched.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))} | {
        "PIP_NO_INDEX": "1",
        "CFLAGS": "-g0",  # a third of the time of compiling goes into what only a debugger reads
    }
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def built(source, target):
    """The wheel of a distribution, its modules compiled in a third of the time; `source` is a copy and changed."""
    setup = source / "setup.py"
    if setup.exists():
        text = setup.read_text()
        assert '"-O3"' in text, f"{setup} names no optimisation to leave out"
        setup.write_text(text.replace('"-O3"', '"-O0"'))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    run(*pip, "--wheel-dir", target, source, cwd=target)
    (wheel,) = target.glob("*.whl")
    return wheel


def copy_of(environment, tmp_path):
    """A copy of an environment, to be changed: (python, site)."""
    python, site = environment
    root = python.parents[1]
    copied = shutil.copytree(root, tmp_path / "env", symlinks=True)
    return copied / python.relative_to(root), copied / site.relative_to(root)


def environment_with(wheel, tmp_path):
    """A fresh environment that sees the running one's packages, with a distribution installed: (python, site)."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    # addsitedir rather than a bare path: it also reads the .pth files there, of editable installs among others.
    seen = dict.fromkeys(
        [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        + [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    )
    (site / "running.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in seen))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--target", site, wheel, cwd=tmp_path)
    return python, site
