"""Build of the extension module; the other metadata are in pyproject.toml."""

from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

import expfam

setup(
    ext_modules=cythonize(
        [
            Extension(
                "expfam_template_name.components",
                ["src/expfam_template_name/components.pyx"],
                include_dirs=[numpy.get_include()],
                extra_compile_args=["-O3"],
            )
        ],
        # `cimport expfam.contracts` needs the folder that holds the package expfam
        include_path=[str(Path(expfam.get_include()).parent)],
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False, "cdivision": True},
    )
)
