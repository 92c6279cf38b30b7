"""Packages and extension modules; the rest of the metadata is in pyproject.toml.

A module is built again where the content of something that it is made from has changed. Times of files decide nothing:
each isolated environment of pip brings new copies of Cython's own declarations.
"""

import hashlib
import json
import multiprocessing
import os
import re
import shutil
from functools import cache
from pathlib import Path

import Cython
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
STAGE = Path("build", "cimport")  # copies of the declarations, in the tree in which Cython looks up dotted names
TRANSLATED = Path("build", "cython")  # C files
RECORDS = Path("build", "records")  # of each module, what its C file and its binaries were made from
SHARED = "expfam._cyutility"  # Cython's own memoryview code, once for all modules
HEADERS = ["expfam", "structures", "structures/ground", "structures/simd"]
CHECKS = os.environ.get("EXPFAM_DEBUG") == "1"
SANITIZE = os.environ.get("EXPFAM_SANITIZE", "")  # a list for -fsanitize; set by .ci/sanitize.py
MODULES = os.environ.get("EXPFAM_MODULES", "").split()  # only these are built, by dotted name; empty for all
OPTIMISATION = os.environ.get("EXPFAM_OPTIMISATION", "-O1" if CHECKS else "-O3")  # a checked build serves one test run
DIRECTIVES = {
    "language_level": 3,
    "cdivision": True,
    "boundscheck": CHECKS,
    "wraparound": CHECKS,
    "initializedcheck": CHECKS,
    "nonecheck": CHECKS,
    "freethreading_compatible": True,  # else a Python without the global lock takes it again at import
}


def stage(package, folder):
    """Copy the declarations of a package to where Cython looks them up."""
    target = STAGE.joinpath(*package.split("."))
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.pxd"):
        if not Path(folder, old.name).exists():
            old.unlink()
    for source in [Path(folder, "__init__.py"), *Path(folder).glob("*.pxd")]:
        shutil.copy2(source, target / source.name)


# ---- what a module is made from --------------------------------------------------------------------------------------

CIMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(expfam[\w.]*)[ \t]+cimport\b|cimport[ \t]+(expfam[\w.]*))", flags=re.M)
EXTERN = re.compile(r"^[ \t]*cdef[ \t]+extern[ \t]+from[ \t]+[\"']([\w./]+)[\"']", flags=re.M)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+\"([\w./]+)\"", flags=re.M)


@cache
def names_in(file):
    """Modules whose declarations a .pyx or .pxd file reads, and headers that it names."""
    text = file.read_text()
    modules = {first or second for first, second in CIMPORT.findall(text)}
    return modules, {*EXTERN.findall(text), *INCLUDE.findall(text)}  # C text in a Cython file includes headers, too


def declarations(source):
    """The .pyx file and all .pxd files of ours that it reads, with those that these read."""
    found, waiting = set(), [source, source.with_suffix(".pxd")]
    while waiting:
        file = waiting.pop()
        if file in found or not file.exists():
            continue
        found.add(file)
        for name in names_in(file)[0]:
            package, _, module = name.rpartition(".")
            if name in PACKAGES:  # `from expfam.families cimport components`: any of its declarations may be meant
                waiting += Path(PACKAGES[name]).glob("*.pxd")
            if package in PACKAGES:
                waiting.append(Path(PACKAGES[package], f"{module}.pxd"))
    return sorted(found)


def headers(files):
    """The .h files of ours that .pyx and .pxd files name, with those that these include."""
    found, waiting = set(), sorted({name for file in files for name in names_in(file)[1]})
    while waiting:
        name = waiting.pop()
        for folder in [*HEADERS, *(str(file.parent) for file in found)]:
            file = Path(folder, name)
            if file.exists() and file not in found:
                found.add(file)
                waiting += INCLUDE.findall(file.read_text())
    return sorted(found)


def digest(files, *more):
    """Return the digest of the content of files and of all else that decides."""
    made_from = hashlib.sha256(repr(more).encode())
    for file in files:
        made_from.update(f"\n{file.as_posix()}\n".encode())
        made_from.update(file.read_bytes())
    return made_from.hexdigest()


def content(file):
    """Return the digest of one file."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def record_of(name):
    """Return what was noted of a module, by the files that were made; empty where nothing readable was noted."""
    try:
        return dict(json.loads((RECORDS / f"{name}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def note(name, made, made_from):
    """Note what a file of a module was made from, and the digest of the file itself."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    record = {**record_of(name), Path(made).as_posix(): [made_from, content(made)]}
    (RECORDS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def is_made(name, made, made_from):
    """Whether a file of a module is there as it was made from this."""
    noted = record_of(name).get(Path(made).as_posix())
    return Path(made).exists() and noted == [made_from, content(made)]


class BuildExt(build_ext):
    """Optimisation flags by compiler, all cores; `omp simd` is a vectorisation hint and needs no OpenMP library."""

    def finalize_options(self):
        """Compile modules side by side unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self):
        """Translate the modules, set the flags, then build."""
        translate(self.extensions)
        msvc = self.compiler.compiler_type == "msvc"
        # no code asks which exception a number has raised: gcc then computes both sides of a choice, in vectors
        flags = ["/O2"] if msvc else [OPTIMISATION, "-g0", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]
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

    def copy_extensions_to_source(self):
        """Copy all binaries of an in-place build, also over newer files, which may be of another build."""
        self.force = True
        super().copy_extensions_to_source()

    def build_extension(self, extension):
        """Compile a module, unless its binary was made from the same C file, headers, flags, compiler and NumPy."""
        binary = self.get_ext_fullpath(extension.name)
        compiler = getattr(self.compiler, "compiler_so", self.compiler.compiler_type)
        made_from = digest(
            [Path(file) for file in [*extension.sources, *extension.depends]],
            extension.extra_compile_args,
            compiler,
            numpy.__version__,
        )
        if self.force or not is_made(extension.name, binary, made_from):
            Path(binary).unlink(missing_ok=True)  # whatever its time, it is made anew
            super().build_extension(extension)
            note(extension.name, binary, made_from)


def extensions():
    """All modules, or those of EXPFAM_MODULES; `translate` gives them their C files."""
    sources = {SHARED: None}
    for package, folder in PACKAGES.items():
        sources |= {f"{package}.{source.stem}": source for source in sorted(Path(folder).glob("*.pyx"))}
    return [
        Extension(
            name,
            [str(source)] if source else [],
            include_dirs=[numpy.get_include(), *HEADERS],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
            depends=[file.as_posix() for file in headers(declarations(source) if source else [])],
        )
        for name, source in sources.items()
        if not MODULES or name in MODULES
    ]


def translate(extensions):
    """Give each module a C file that is made from what stands in the sources.

    It is done when modules are built: an sdist holds no C file, and is made in seconds.
    """
    for package, folder in PACKAGES.items():
        stage(package, folder)
    c_files, made_from = {}, {}
    for extension in extensions:
        source = Path(extension.sources[0]) if extension.sources else None
        files = declarations(source) if source else []
        path = TRANSLATED / (source or Path(*extension.name.split("."))).with_suffix(".c")
        c_files[extension.name] = path
        made_from[extension.name] = digest(files, Cython.__version__, numpy.__version__, sorted(DIRECTIVES.items()))
    stale = [each for each in extensions if not is_made(each.name, c_files[each.name], made_from[each.name])]
    for extension in translated(stale):
        note(extension.name, c_files[extension.name], made_from[extension.name])
    for extension in extensions:
        extension.sources = [c_files[extension.name].as_posix()]


def translated(stale):
    """Have Cython make the C files of modules."""
    return cythonize(
        stale,
        force=True,  # the digests have decided
        include_path=[str(STAGE)],
        build_dir=str(TRANSLATED),
        # started otherwise, each process would run this file again
        nthreads=os.cpu_count() if multiprocessing.get_start_method() == "fork" else 0,
        shared_utility_qualified_name=SHARED,
        compiler_directives=DIRECTIVES,
    )


setup(
    packages=list(PACKAGES),
    package_dir=PACKAGES,
    include_package_data=False,
    package_data={
        "": ["*.pxd", "*.pyi", "*.h", "py.typed"],
        "expfam.plugins": [f"templates/**/*{suffix}" for suffix in (".py", ".toml", ".md", ".in")],
    },
    cmdclass={"build_ext": BuildExt},
    ext_modules=extensions(),
)
