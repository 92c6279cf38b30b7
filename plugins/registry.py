"""Families and proposals by name, found through entry points and imported on first use.

Listing reads metadata and imports nothing; a name is loaded when it is used. A plugin that is broken, ambiguous or made
for another version raises an error when it is used. The error names its distribution, and other plugins keep working.
The installed metadata are scanned once (some milliseconds), under a lock, and again after `refresh`.
"""

from __future__ import annotations

import inspect
import re
import threading
from dataclasses import dataclass
from importlib import invalidate_caches, metadata
from typing import TYPE_CHECKING, Any

from expfam.errors import PluginError, UnknownNameError
from expfam.near_names import did_you_mean, near_names

if TYPE_CHECKING:
    from expfam.families.base import Family

GROUPS = {"family": "expfam.families", "proposal": "expfam.proposals"}
API_VERSIONS = (1, 1)  # oldest and newest version of the protocols that this package supports
OWN = "expfam"  # our distribution: no other one replaces its names silently
NOTEBOOK = "(registered)"  # stands for the distribution of classes given to `register`
_NAME = re.compile(r"[a-z0-9_]+")
_VALUE = re.compile(r"\s*[\w.]+\s*(:\s*[\w.]+\s*)?(\[.*\])?\s*")
_FAMILY_SYNONYMS = {
    **dict.fromkeys(("normal", "gauss", "gmm", "mvn", "multivariate_normal"), ("gaussian_diag", "gaussian")),
    **dict.fromkeys(("full", "gaussian_full", "normal_full"), ("gaussian",)),
    **dict.fromkeys(("diag", "diagonal", "diagonal_gaussian", "normal_diag"), ("gaussian_diag",)),
    **dict.fromkeys(("spherical", "isotropic", "kmeans"), ("gaussian_spherical",)),
    **dict.fromkeys(("zero_mean_gaussian", "zero_mean"), ("gaussian_zero",)),
    **dict.fromkeys(("log_normal",), ("lognormal",)),
    **dict.fromkeys(("binary", "binomial", "beta_bernoulli"), ("bernoulli",)),
    **dict.fromkeys(("category", "categories", "discrete", "nominal", "lca"), ("categorical",)),
    **dict.fromkeys(("count", "counts"), ("poisson", "multinomial", "negative_binomial")),
    **dict.fromkeys(("nb", "negbin", "neg_binomial"), ("negative_binomial",)),
    **dict.fromkeys(("text", "documents", "dirichlet_multinomial", "bag_of_words"), ("multinomial",)),
    **dict.fromkeys(("vmf", "mises_fisher"), ("von_mises_fisher",)),
    **dict.fromkeys(("mixed", "table", "dataframe", "frame"), ("columns",)),
}  # words of other libraries and books: names of this package
_PROPOSAL_KINDS = ("assignment", "anchors", "allocator")


@dataclass(frozen=True)
class Plugin:
    """One name that a distribution offers, with the facts from its metadata.

    Attributes
    ----------
    group : str
        Entry-point group.
    name : str
    distribution, version : str
        Distribution that offers it; ``"(registered)"`` and ``""`` for classes given to `register`.
    value : str
        ``"module:Class"``.
    loaded : bool
        Whether it has been imported through the registry.
    """

    group: str
    name: str
    distribution: str
    version: str
    value: str
    loaded: bool = False

    @property
    def qualified_name(self) -> str:
        """Return ``"distribution:name"``, which is never ambiguous."""
        return f"{self.distribution}:{self.name}"

    @property
    def source(self) -> str:
        """Return distribution, version and entry point as text for messages."""
        return f"{' '.join(filter(None, (self.distribution, self.version)))} (entry point {self.name} = {self.value})"


class _Registry:
    """The scanned plugins, the loaded classes and the registered classes.

    Every access must hold the lock.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.scanned = None  # {group: [Plugin]}
        self.loaded = {}  # {Plugin: class}
        self.registered = {}  # {(group, name): (Plugin, class)}

    def offers(self, group):
        with self.lock:
            if self.scanned is None:
                self.scanned = {group: _scan(group) for group in GROUPS.values()}
            by_hand = [plugin for (where, _), (plugin, _) in self.registered.items() if where == group]
            return self.scanned[group] + by_hand


_registry = _Registry()


def _scan(group):
    """Return the plugins of one group, sorted; a distribution found twice counts once."""
    try:
        entries = [(entry, *_signature(entry.dist)) for entry in metadata.entry_points(group=group)]
    except Exception:  # the metadata of one distribution may be damaged; the others are still read
        entries = list(_readable_entries(group))
    found = {}
    for entry, name, version in entries:
        # an editable install that runs in its own checkout lists the same distribution twice
        found.setdefault((name, entry.name, entry.value), Plugin(group, entry.name, name, version, entry.value))
    return [found[key] for key in sorted(found)]


def _signature(distribution):
    if distribution is None:
        return "(unknown)", ""
    return _normal(distribution.metadata["Name"]), distribution.version or ""


def _readable_entries(group):
    """Yield (entry point, name, version) of every distribution with readable metadata.

    Of distributions with equal names the first one on the path counts.
    """
    seen = set()
    for distribution in metadata.distributions():
        if _damage(distribution) is None:
            name, version = _signature(distribution)
            entries = [] if name in seen else distribution.entry_points.select(group=group)
            seen.add(name)
            yield from ((entry, name, version) for entry in entries)


def _damage(distribution):
    """Return why the metadata of a distribution cannot be read, or None if they can."""
    try:
        _signature(distribution)
        distribution.entry_points.select(group="expfam")
    except Exception as error:
        where = getattr(distribution, "_path", distribution)
        return f"the metadata in {where} cannot be read ({type(error).__name__}: {error}): install it again"
    return None


def _damages():
    return [damage for damage in map(_damage, metadata.distributions()) if damage is not None]


def _normal(name):
    """Return a distribution's name in the form that PyPI compares, with underscores."""
    return re.sub(r"[-_.]+", "_", name or "(unnamed)").lower()


# ---- public -------------------------------------------------------------------------------------------------------


def load_family(name: str, **hyper: Any) -> Family:
    """Make the family of that name with the given hyper-parameters.

    Parameters
    ----------
    name : str
        ``"name"``, or ``"distribution:name"`` where several distributions offer it.
    **hyper
        Keywords of the family's constructor.

    Returns
    -------
    Family

    Raises
    ------
    PluginError
        The name is unknown, ambiguous or badly formed, or its plugin cannot be used.

    Examples
    --------
    >>> from expfam import load_family
    >>> load_family("bernoulli", a=1.0, b=2.0)
    Bernoulli(a=1.0, b=2.0)
    """
    return family_class(name)(**hyper)


def family_class(name: str) -> type[Family]:
    """Return the class of the family of that name; raise as `load_family` does."""
    return _load("family", name)


def load_proposal(name: str, **options: Any) -> Any:
    """Make the proposal, anchor law or allocator of that name with the given options.

    Parameters
    ----------
    name, **options
        As of `load_family`, which tells the errors too.

    Returns
    -------
    Proposal, Anchors or Allocator

    Examples
    --------
    >>> from expfam import load_proposal
    >>> load_proposal("hash", n_bits=64).n_bits
    64
    """
    return _load("proposal", name)(**options)


def list_plugins(group: str | None = None) -> list[Plugin]:
    """List all installed and registered plugins; nothing is imported.

    Parameters
    ----------
    group : {"family", "proposal", "expfam.families", "expfam.proposals"}, optional
        Both if not given.

    Returns
    -------
    list of Plugin

    Examples
    --------
    >>> from expfam import list_plugins
    >>> [plugin.value for plugin in list_plugins("family") if plugin.qualified_name == "expfam:geometric"]
    ['expfam.families.trials.geometric:Geometric']
    """
    groups = list(GROUPS.values()) if group is None else [_group(group)]
    with _registry.lock:
        return [_as_listed(plugin) for chosen in groups for plugin in _registry.offers(chosen)]


def register(name: str, cls: type, *, kind: str = "family", replace: bool = False) -> type:
    """Offer a class under a name until the end of this process, for example from a notebook.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and underscores.
    cls : type
    kind : {"family", "proposal"}
    replace : bool
        Whether to replace an earlier class or an installed plugin of that name. You may register the
        identical class again without it.

    Returns
    -------
    type
        `cls` itself.

    Raises
    ------
    PluginError
        The name is taken or badly formed, or the class is not usable.

    Examples
    --------
    >>> import expfam
    >>> class Visits(expfam.Poisson):
    ...     name = "visits"
    >>> expfam.register("visits", Visits).__name__
    'Visits'
    >>> expfam.load_family("visits").name
    'visits'
    """
    group = _group(kind)
    value = f"{getattr(cls, '__module__', '?')}:{getattr(cls, '__qualname__', repr(cls))}"
    plugin = Plugin(group, name, NOTEBOOK, "", value, loaded=True)
    _check_name(plugin)
    _check_class(plugin, cls)
    with _registry.lock:
        known = _registry.registered.get((group, name))
        if known is not None and known[1] is cls:
            return cls
        taken = [known[0]] if known is not None else [p for p in _registry.offers(group) if p.name == name]
        if taken and not replace:
            raise PluginError(f"{name!r} is already offered by {taken[0].source}; give another name, or replace=True")
        _registry.registered[group, name] = (plugin, cls)
    return cls


def refresh() -> None:
    """Forget the scan and the loaded classes, so that new distributions are found.

    Registered classes stay.
    """
    with _registry.lock:
        invalidate_caches()
        _registry.scanned = None
        _registry.loaded.clear()


def registered_class(class_path: str) -> type | None:
    """Return the registered class with the path ``"module:Class"``, or None."""
    with _registry.lock:
        for plugin, cls in _registry.registered.values():
            if plugin.value == class_path:
                return cls
    return None


def is_offered(module: str) -> bool:
    """Tell whether a module belongs to a distribution that offers a plugin; nothing is imported.

    It does if an entry point names it or another module of its package.

    >>> from expfam.plugins.registry import is_offered
    >>> is_offered("expfam.families.trials.families"), is_offered("antigravity")
    (True, False)
    """
    with _registry.lock:
        offers = [plugin for group in GROUPS.values() for plugin in _registry.offers(group)]
    for plugin in offers:
        named = plugin.value.partition(":")[0].strip()
        package = named.rpartition(".")[0] or named
        if plugin.distribution != NOTEBOOK and (module == package or module.startswith(package + ".")):
            return True
    return False


def check_all(group: str | None = None) -> list[tuple[Plugin, str | None]]:
    """Load every plugin in turn and report which ones work.

    Parameters
    ----------
    group : str, optional
        As for `list_plugins`.

    Returns
    -------
    list of (Plugin, str or None)
        Each plugin with the message of its error, or None if it works under its unqualified name.
    """
    report = []
    for plugin in list_plugins(group):
        try:
            _load(plugin.group, plugin.name if plugin.distribution == NOTEBOOK else plugin.qualified_name)
            _choose(plugin.group, plugin.name)
            message = None
        except PluginError as error:
            message = str(error)
        report.append((_as_listed(plugin), message))
    return report


# ---- choosing -----------------------------------------------------------------------------------------------------


def _group(kind):
    if kind in GROUPS.values():
        return kind
    if kind not in GROUPS:
        raise ValueError(f"kind of plugin must be one of {[*GROUPS, *GROUPS.values()]}; got {kind!r}")
    return GROUPS[kind]


def _as_listed(plugin):
    loaded = plugin.loaded or plugin in _registry.loaded
    return Plugin(plugin.group, plugin.name, plugin.distribution, plugin.version, plugin.value, loaded)


def _noun(group):
    return "family" if group == GROUPS["family"] else "proposal"


def _choose(group, name):
    """Return the one plugin that `name` stands for."""
    if not isinstance(name, str):
        raise PluginError(f"a {_noun(group)}'s name must be a string; got {name!r}")
    distribution, _, short = name.rpartition(":")
    offers = [plugin for plugin in _registry.offers(group) if plugin.name == short]
    if distribution:
        offers = [plugin for plugin in offers if plugin.distribution == _normal(distribution)]
    elif (group, short) in _registry.registered:
        return _registry.registered[group, short][0]  # `register` allows one class for each name
    if not offers:
        raise _unknown(group, name)
    if len(offers) > 1:
        raise _ambiguous(group, name, offers)
    _check_name(offers[0])
    return offers[0]


def _unknown(group, name):
    offers = _registry.offers(group)
    names = sorted({plugin.name for plugin in offers} | ({p.qualified_name for p in offers} if ":" in name else set()))
    synonyms = _FAMILY_SYNONYMS if _noun(group) == "family" else None
    listed = ", ".join(names) if names else "none is installed"
    damaged = "".join(f"; {damage}" for damage in _damages())
    hint = did_you_mean(name, names, synonyms)
    error = UnknownNameError(f"no {_noun(group)} is called {name!r}{hint} (known: {listed}){damaged}")
    error.near = near_names(name, names, synonyms)
    return error


def _ambiguous(group, name, offers):
    sources = " and ".join(plugin.source for plugin in offers)
    choices = list(dict.fromkeys(plugin.qualified_name for plugin in offers))
    if len(choices) == 1:
        advice = "a distribution has to offer it once: tell its authors, or uninstall it"
    else:
        advice = f"say which: {' or '.join(map(repr, choices))}"
        if any(plugin.distribution == OWN for plugin in offers):
            advice += "; other distributions do not replace a name of expfam silently"
    return PluginError(f"{_noun(group)} {name!r} is offered by {sources}; {advice}")


# ---- loading and checking -----------------------------------------------------------------------------------------


def _load(kind, name):
    group = _group(kind)
    with _registry.lock:
        plugin = _choose(group, name)
        if plugin.distribution == NOTEBOOK:
            return _registry.registered[group, plugin.name][1]
        if plugin not in _registry.loaded:
            cls = _import(plugin)
            _check_class(plugin, cls)
            _registry.loaded[plugin] = cls
        return _registry.loaded[plugin]


def _import(plugin):
    """Import the object that an entry point names; every error is reported with its origin."""
    if not _VALUE.fullmatch(plugin.value):
        raise PluginError(
            f"{_noun(plugin.group)} {plugin.name!r} of {plugin.source} names no class: the value of an entry point"
            " must be module:Class"
        )
    try:
        return metadata.EntryPoint(plugin.name, plugin.value, plugin.group).load()
    except (Exception, SystemExit) as error:  # a foreign module may raise anything; the message must name its origin
        raise PluginError(
            f"{_noun(plugin.group)} {plugin.name!r} of {plugin.source} cannot be loaded:"
            f" {type(error).__name__}: {error}; {_cure(plugin, error)}"
        ) from error


def _cure(plugin, error):
    """Return what helps where an entry point cannot be loaded."""
    module = plugin.value.partition(":")[0].strip()
    missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    if missing is None or not f"{module}.".startswith(f"{missing}."):
        return "the traceback above says where"
    return (
        f"its source has no such module, so its installed metadata are of another version: install it again, in a"
        f" checkout of {plugin.distribution} with `pip install --no-build-isolation --no-deps -e .`"
    )


def _check_name(plugin):
    if not isinstance(plugin.name, str) or not _NAME.fullmatch(plugin.name):
        raise PluginError(
            f"{_noun(plugin.group)} {plugin.name!r} of {plugin.source} is misnamed:"
            " a name is made of lower-case letters, digits and underscores"
        )


def _check_class(plugin, cls):
    if plugin.group == GROUPS["family"]:
        from expfam.families.base import Family  # not at the top: listing must not import NumPy

        if not (inspect.isclass(cls) and issubclass(cls, Family)):
            raise PluginError(
                f"family {plugin.name!r} of {plugin.source} must be a subclass of expfam.Family; got {cls!r}"
            )
        missing = sorted(getattr(cls, "__abstractmethods__", ()))
        if missing:
            raise PluginError(f"family {plugin.name!r} of {plugin.source} does not implement {', '.join(missing)}")
    else:
        kind = getattr(cls, "kind", None)
        if not (inspect.isclass(cls) and callable(getattr(cls, "bind", None)) and kind in _PROPOSAL_KINDS):
            raise PluginError(
                f"proposal {plugin.name!r} of {plugin.source} must be a class with bind() and a kind out of"
                f" {', '.join(_PROPOSAL_KINDS)}; got {cls!r} with kind {kind!r}"
            )
    _check_version(plugin, getattr(cls, "api_version", None))


def _check_version(plugin, version):
    oldest, newest = API_VERSIONS
    what = f"{_noun(plugin.group)} {plugin.name!r} of {plugin.source}"
    if not isinstance(version, int) or isinstance(version, bool):
        raise PluginError(f"{what} must state api_version as an integer; got {version!r}")
    spoken = f"{what} uses interface version {version}, this expfam supports {oldest} to {newest}"
    if version > newest:
        raise PluginError(f"{spoken}: upgrade expfam")
    if version < oldest:
        who = plugin.distribution if plugin.distribution != NOTEBOOK else "the class"
        raise PluginError(f"{spoken}: upgrade {who}")
