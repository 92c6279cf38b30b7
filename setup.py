"""Packages and extension modules; the rest of the metadata is in pyproject.toml."""

import multiprocessing
import os
import shutil
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOTS = {
    "expfam": "expfam",
    "expfam.structures": "structures",
    "expfam.samplers": "samplers",
    "expfam.plugins": "plugins",
}


def packages():
    """Package name to folder: every folder below the four roots that has an __init__.py."""
    found = {}
    for root, folder in ROOTS.items():
        for init in sorted(Path(folder).rglob("__init__.py")):
            inner = init.parent.relative_to(folder).parts
            if not {"templates", "reference"} & set(inner):  # sources of other distributions
                found[".".join([root, *inner])] = init.parent.as_posix()
    return found


PACKAGES = packages()
STAGE = Path("build", "cimport")
HEADERS = ["structures", "structures/ground", "structures/simd"]
CHECKS = os.environ.get("EXPFAM_DEBUG") == "1"
SANITIZE = os.environ.get("EXPFAM_SANITIZE", "")  # a list for -fsanitize; set by .ci/sanitize.py
MODULES = os.environ.get("EXPFAM_MODULES", "").split()  # only these are built, by dotted name; empty for all
OPTIMISATION = os.environ.get("EXPFAM_OPTIMISATION", "-O1" if CHECKS else "-O3")  # a checked build serves one test run


def stage(package, folder):
    """Copy declarations, with their times, to the tree in which Cython looks up dotted names."""
    target = STAGE.joinpath(*package.split("."))
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.pxd"):
        if not Path(folder, old.name).exists():
            old.unlink()
    for source in [Path(folder, "__init__.py"), *Path(folder).glob("*.pxd")]:
        copy = target / source.name
        if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
            shutil.copy2(source, copy)


class BuildExt(build_ext):
    """Optimisation flags by compiler, all cores; `omp simd` is a vectorisation hint and needs no OpenMP library."""

    def finalize_options(self):
        """Compile modules side by side unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        """Set the flags, then build."""
        msvc = self.compiler.compiler_type == "msvc"
        flags = ["/O2"] if msvc else [OPTIMISATION, "-g0", "-fno-math-errno", "-fopenmp-simd"]
        if SANITIZE:
            if msvc:
                raise SystemExit("EXPFAM_SANITIZE is for gcc and clang: unset it to build with this compiler")
            # Python's own flags declare that signed numbers wrap around, and so hide overflows. What Cython adds to
            # each module is not inlined: that would take half of the compiler's time.
            flags += ["-O1", "-g1", "-fno-wrapv", "-fno-inline", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"]
            if "address" in SANITIZE.split(","):
                flags.append("-fsanitize-recover=address")  # one run of the tests reports every fault, not the first
        for extension in self.extensions:
            extension.extra_compile_args = flags
            extension.extra_link_args = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
        super().build_extensions()


extensions = [Extension("expfam._cyutility", [])]  # memoryview code, once for all modules
for package, folder in PACKAGES.items():
    stage(package, folder)
    extensions += [
        Extension(
            f"{package}.{source.stem}",
            [str(source)],
            include_dirs=[numpy.get_include(), "expfam", *HEADERS],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
            depends=[str(header) for header in Path("structures").rglob("*.h")],
        )
        for source in sorted(Path(folder).glob("*.pyx"))
    ]

if MODULES:
    extensions = [extension for extension in extensions if extension.name in MODULES]

setup(
    packages=list(PACKAGES),
    package_dir=PACKAGES,
    include_package_data=False,
    package_data={
        "": ["*.pxd", "*.pyi", "*.h", "py.typed"],
        "expfam.plugins": [f"templates/**/*{suffix}" for suffix in (".py", ".toml", ".md")],
    },
    cmdclass={"build_ext": BuildExt},
    ext_modules=cythonize(
        extensions,
        include_path=[str(STAGE)],
        build_dir="build/cython",
        # started otherwise, each process would run this file again
        nthreads=os.cpu_count() if multiprocessing.get_start_method() == "fork" else 0,
        shared_utility_qualified_name="expfam._cyutility",
        compiler_directives={
            "language_level": 3,
            "cdivision": True,
            "boundscheck": CHECKS,
            "wraparound": CHECKS,
            "initializedcheck": CHECKS,
            "nonecheck": CHECKS,
        },
    ),
)
