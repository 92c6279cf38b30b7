"""Import every module of the installed package and every public name, away from the checkout.

Modules of extras that are not installed must say what to install.
"""

import importlib
import pkgutil
from pathlib import Path

import expfam
import expfam.samplers

folder = Path(expfam.__file__).parent
assert "site-packages" in folder.parts, f"this is not the installed package: {folder}"
modules = [m.name for m in pkgutil.walk_packages(expfam.__path__, "expfam.") if not m.name.endswith("__main__")]
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if "pip install 'expfam[" not in str(error):  # of an extra that is not installed here
            raise
names = [(package, name) for package in (expfam, expfam.samplers) for name in package.__all__]
for package, name in names:
    getattr(package, name)
print(f"expfam {expfam.__version__}: {len(modules)} modules and {len(names)} public names imported from {folder}")
