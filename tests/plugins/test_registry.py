"""Discovery by name: lazy, with each fault told at use and its distribution named. Fakes are dist-infos on sys.path."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from expfam import MixtureModel, Poisson, SymmetricDirichlet, samplers
from expfam.errors import CapabilityError, PluginError
from expfam.families.base import Family
from expfam.plugins import registry
from expfam.plugins.registry import check_all, list_plugins, load_family, load_proposal, refresh, register
from expfam.samplers import Canopy, CollapsedMetropolis, FastEx, Kernel, StochasticEM, UncollapsedMetropolis

GOOD = """
import numpy as np
from expfam.families.base import Family

class Flat(Family):
    def __init__(self, height=1.0): self.height = height
    def sufficient_statistics(self, X): return X
    def log_marginal(self, n, S): return -self.height * n
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A place on sys.path for fake distributions; the registry looks afresh before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_registry", registry._Registry())
    refresh()
    before = set(sys.modules)

    def offer(distribution, entries, *, version="1.2", modules=None, group="expfam.families"):
        info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for module, text in (modules or {}).items():
            (tmp_path / f"{module}.py").write_text(textwrap.dedent(text))
        refresh()

    yield offer
    for name in set(sys.modules) - before:
        if name.startswith("fake_"):
            del sys.modules[name]


def test_our_own_families_are_entry_points_like_a_strangers():
    own = {plugin.name for plugin in list_plugins("family") if plugin.distribution == "expfam"}
    assert {"multinomial", "categorical", "poisson", "gaussian", "gaussian_diag", "bernoulli", "exponential"} <= own
    assert repr(load_family("bernoulli", a=1.0, b=2.0)) == "Bernoulli(a=1.0, b=2.0)"
    assert load_family("expfam:geometric").name == "geometric"


def test_listing_imports_no_plugin_and_not_even_numpy(site):
    site("fake-one", {"flat": "fake_never_imported:Flat"}, modules={"fake_never_imported": "raise RuntimeError"})
    code = (
        "import sys; from expfam.plugins.registry import list_plugins; names = {p.name for p in list_plugins()};"
        "assert {'flat', 'poisson'} <= names, names;"
        "assert not {'numpy', 'fake_never_imported', 'expfam.families'} & set(sys.modules)"
    )
    path = str(sys.path[0])
    subprocess.run([sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {path!r}); {code}"], check=True)


def test_a_stranger_loads_on_first_use(site):
    site("Fake-One", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    (plugin,) = [p for p in list_plugins("expfam.families") if p.name == "flat"]
    assert (plugin.distribution, plugin.version, plugin.value, plugin.loaded) == (
        "fake_one",
        "1.2",
        "fake_one:Flat",
        False,
    )
    assert "fake_one" not in sys.modules
    assert load_family("flat", height=3.0).height == 3.0
    assert load_family("fake-one:flat").height == 1.0
    assert [p.loaded for p in list_plugins("family") if p.name == "flat"] == [True]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gausian", r"no family is called 'gausian'; did you mean 'gaussian'\? \(known: .*bernoulli, .*poisson"),
        ("nobody:poisson", r"no family is called 'nobody:poisson'; did you mean"),
        ("zzzzzz", r"no family is called 'zzzzzz' \(known: "),
        (3, r"name must be a string; got 3"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(name, said):
    with pytest.raises(PluginError, match=said):
        load_family(name)


def test_a_broken_plugin_is_told_at_use_with_its_origin_and_harms_no_other(site):
    site("fake-bad", {"bad": "fake_bad:Bad"}, version="0.3", modules={"fake_bad": "import fake_missing_dependency"})
    site("fake-one", {"flat": "fake_one:Flat", "gone": "fake_one:Gone"}, modules={"fake_one": GOOD})
    assert load_family("flat") is not None
    with pytest.raises(PluginError, match=r"fake_bad 0\.3 \(entry point bad = fake_bad:Bad\).*fake_missing") as caught:
        load_family("bad")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    with pytest.raises(PluginError, match=r"family 'gone' of fake_one 1\.2.*AttributeError"):
        load_family("gone")
    status = {plugin.name: message for plugin, message in check_all("family") if plugin.distribution.startswith("fake")}
    assert status["flat"] is None
    assert "fake_missing_dependency" in status["bad"]


@pytest.mark.parametrize("value", ["fake_gone:Flat", "fake_gone.rooms.flat:Flat"])
def test_metadata_of_another_version_are_told_with_the_line_to_type(site, value):
    site("fake-one", {"flat": value})
    with pytest.raises(PluginError, match="metadata are of another version") as caught:
        load_family("flat")
    assert "checkout of fake_one with `pip install --no-build-isolation --no-deps -e .`" in str(caught.value)


def test_a_missing_library_of_a_plugin_is_not_taken_for_old_metadata(site):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": "import fake_one_needs_this"})
    with pytest.raises(PluginError, match=r"fake_one_needs_this.*the traceback above says where"):
        load_family("flat")


def test_a_plugin_that_exits_while_importing_does_not_end_the_process(site):
    site("fake-exit", {"bad": "fake_exit:Bad"}, modules={"fake_exit": "raise SystemExit(3)"})
    with pytest.raises(PluginError, match="SystemExit: 3"):
        load_family("bad")


def test_two_distributions_with_one_name_are_an_error_at_use_only(site):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    site("fake-two", {"flat": "fake_two:Flat"}, modules={"fake_two": GOOD})
    assert len([p for p in list_plugins("family") if p.name == "flat"]) == 2
    with pytest.raises(PluginError, match=r"fake_one 1\.2 .* and fake_two 1\.2 .*'fake_one:flat' or 'fake_two:flat'"):
        load_family("flat")
    assert type(load_family("fake_two:flat")).__module__ == "fake_two"


def test_a_name_of_ours_is_never_shadowed_silently(site):
    site("fake-one", {"bernoulli": "fake_one:Flat"}, modules={"fake_one": GOOD})
    with pytest.raises(PluginError, match=r"'expfam:bernoulli' or 'fake_one:bernoulli'; other distributions do not"):
        load_family("bernoulli")
    assert load_family("expfam:bernoulli").name == "bernoulli"
    assert type(load_family("fake_one:bernoulli")).__name__ == "Flat"
    status = {plugin.qualified_name: message for plugin, message in check_all("family")}
    assert "is offered by" in status["expfam:bernoulli"]


def test_one_distribution_seen_twice_counts_once(site, tmp_path, monkeypatch):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    seen = registry.metadata.entry_points(group="expfam.families")
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [*seen, *seen])
    refresh()
    assert len([p for p in list_plugins("family") if p.name == "flat"]) == 1


def test_one_distribution_with_two_values_is_told_to_offer_one(site, monkeypatch):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    (entry,) = [e for e in registry.metadata.entry_points(group="expfam.families") if e.name == "flat"]
    other = registry.metadata.EntryPoint("flat", "fake_one:Other", "expfam.families")._for(entry.dist)
    monkeypatch.setattr(registry.metadata, "entry_points", lambda group: [entry, other])
    refresh()
    with pytest.raises(PluginError, match="has to offer it once"):
        load_family("flat")


@pytest.mark.parametrize(("version", "side"), [(99, "upgrade expfam"), (0, "upgrade fake_stale")])
def test_another_interface_version_says_which_side_to_upgrade(site, version, side):
    site("fake-stale", {"flat": "fake_stale:Flat"}, modules={"fake_stale": GOOD + f"    api_version = {version}\n"})
    with pytest.raises(PluginError, match=rf"uses interface version {version}, this expfam supports 1 to 1: {side}$"):
        load_family("flat")


@pytest.mark.parametrize("version", ["'1'", "None", "True", "1.0"])
def test_an_interface_version_is_an_integer(site, version):
    site("fake-stale", {"flat": "fake_stale:Flat"}, modules={"fake_stale": GOOD + f"    api_version = {version}\n"})
    with pytest.raises(PluginError, match=rf"fake_stale 1\.2 .* must state api_version as an integer; got {version}"):
        load_family("flat")


def test_a_proposal_has_to_state_its_version_too(site):
    module = "class Late:\n    kind = 'anchors'\n    def bind(self, data, *, seed): pass\n"
    newer = module.replace("Late", "Newer") + "    api_version = 3\n"
    entries = {"late": "fake_late:Late", "newer": "fake_late:Newer"}
    site("fake-late", entries, modules={"fake_late": module + newer}, group="expfam.proposals")
    with pytest.raises(PluginError, match=r"proposal 'late' of fake_late 1\.2 .* state api_version .* got None"):
        load_proposal("late")
    with pytest.raises(PluginError, match=r"'newer' of .* uses interface version 3, .* 1 to 1: upgrade expfam$"):
        load_proposal("newer")


@pytest.mark.parametrize("value", ["!!nonsense::", "", "fake one:Flat", "fake_one:Flat:Flat"])
def test_a_value_that_names_no_class_is_told(site, value):
    site("fake-one", {"flat": value})
    with pytest.raises(PluginError, match=r"family 'flat' of fake_one 1\.2 .* the value of an entry point must be"):
        load_family("flat")
    assert load_family("bernoulli").name == "bernoulli"


@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt"])
def test_a_distribution_with_damaged_metadata_harms_no_other(site, tmp_path, file):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    site("fake-torn", {"torn": "fake_one:Flat"})
    before = [plugin.qualified_name for plugin in list_plugins()]
    torn = tmp_path / "fake_torn-1.2.dist-info" / file
    torn.write_bytes(b"[expfam.families]\n\xff\xfe = fake_one:Flat\n")
    refresh()
    assert load_family("flat").height == 1.0
    assert load_family("poisson").name == "poisson"
    assert [plugin.qualified_name for plugin in list_plugins()] == [n for n in before if n != "fake_torn:torn"]
    with pytest.raises(PluginError, match=r"no family is called 'torn'.* in .*fake_torn-1.2.dist-info cannot be"):
        load_family("torn")


def test_a_distribution_installed_anew_is_seen_after_refresh(site, tmp_path):
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD})
    assert [p.version for p in list_plugins("family") if p.name == "flat"] == ["1.2"]
    (tmp_path / "fake_one-1.2.dist-info").rename(tmp_path / "fake_one-1.3.dist-info")
    metadata = tmp_path / "fake_one-1.3.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.2", "1.3"))
    assert [p.version for p in list_plugins("family") if p.name == "flat"] == ["1.2"]
    refresh()
    assert [(p.version, p.loaded) for p in list_plugins("family") if p.name == "flat"] == [("1.3", False)]


def test_the_command_line_tells_a_broken_plugin_in_one_line(site, capsys):
    from expfam.cli import main

    site("fake-bad", {"bad": "fake_bad:Bad"}, version="0.3", modules={"fake_bad": "import fake_missing_dependency"})
    assert main(["check", "bad"]) == 2
    said = capsys.readouterr().err
    assert "fake_bad 0.3 (entry point bad = fake_bad:Bad)" in said
    assert "fake_missing_dependency" in said
    assert said.count("\n") == 1
    assert main(["plugins", "--json"]) == 0
    assert '"fake_bad:Bad"' in capsys.readouterr().out


def test_what_is_offered_must_be_a_finished_family(site):
    module = GOOD + "\nflat = Flat()\nclass Half(Family):\n    def sufficient_statistics(self, X): return X\n"
    entries = {"instance": "fake_one:flat", "number": "fake_one:np.pi", "half": "fake_one:Half"}
    site("fake-one", entries, modules={"fake_one": module})
    for name in ("instance", "number"):
        with pytest.raises(PluginError, match=rf"family '{name}' of fake_one .* must be a subclass of expfam\.Family"):
            load_family(name)
    with pytest.raises(PluginError, match="does not implement log_marginal"):
        load_family("half")


@pytest.mark.parametrize("name", ["Flat", "flat-earth", "flach é"])
def test_a_misnamed_plugin_is_an_error_at_use(site, name):
    site("fake-one", {name: "fake_one:Flat"}, modules={"fake_one": GOOD})
    assert name in {p.name for p in list_plugins("family")}
    with pytest.raises(PluginError, match="is misnamed"):
        load_family(name)


class Plain(Family):
    def sufficient_statistics(self, X):
        return X

    def log_marginal(self, n, S):
        return -n


class Other(Plain):
    pass


def test_register_offers_a_class_and_asks_before_replacing(site):
    assert register("mine", Plain) is Plain
    register("mine", Plain)  # the identical object again
    assert isinstance(load_family("mine"), Plain)
    with pytest.raises(PluginError, match=r"already offered by .registered. .*replace=True"):
        register("mine", Other)
    register("mine", Other, replace=True)
    assert type(load_family("mine")) is Other
    with pytest.raises(PluginError, match="already offered by expfam"):
        register("bernoulli", Plain)
    register("bernoulli", Plain, replace=True)
    assert type(load_family("bernoulli")) is Plain
    assert load_family("expfam:bernoulli").name == "bernoulli"
    with pytest.raises(PluginError, match="misnamed"):
        register("Mine", Plain)
    with pytest.raises(PluginError, match="must be a subclass"):
        register("number", int)
    with pytest.raises(ValueError, match="kind of plugin"):
        register("mine", Plain, kind="weights")
    assert {p.name for p in list_plugins() if p.distribution == registry.NOTEBOOK} == {"mine", "bernoulli"}


class Nearest:
    api_version = 1
    kind = "anchors"

    def __init__(self, size=3):
        self.size = size

    def bind(self, data, *, seed):
        raise NotImplementedError


def test_proposals_have_their_own_group(site):
    register("nearest_pair", Nearest, kind="proposal")
    assert load_proposal("nearest_pair", size=5).size == 5
    with pytest.raises(PluginError, match="no family is called"):
        load_family("nearest_pair")
    site("fake-one", {"flat": "fake_one:Flat"}, modules={"fake_one": GOOD}, group="expfam.proposals")
    with pytest.raises(
        PluginError, match=r"must be a class with bind\(\) and a kind out of assignment, anchors, alloc"
    ):
        load_proposal("flat")


def test_one_scan_serves_all_threads(site, monkeypatch):
    calls = []
    plain = registry._scan
    monkeypatch.setattr(registry, "_scan", lambda group: calls.append(group) or plain(group))
    refresh()
    threads = [threading.Thread(target=load_family, args=("bernoulli",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(calls) == sorted(registry.GROUPS.values())


# ---- proposals of kernels --------------------------------------------------------------------------------------------

COUNTS = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0], [9.0, 1.0]], 15, axis=0))
TAKERS = {  # every kernel that has `proposal`, with the name of one that suits it
    CollapsedMetropolis: ("table", {}),
    FastEx: ("int8", {}),
    UncollapsedMetropolis: ("prototype", {}),
    StochasticEM: ("prototype", {}),
    Canopy: ("prototype", {"variant": 1}),
}


def labels_after(kernel):
    state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(4)), COUNTS, seed=3)
    for _ in range(3):
        kernel.step(state)
    return state.labels.tolist()


def test_every_kernel_with_a_proposal_is_listed_here():
    kernels = [getattr(samplers, name) for name in samplers.__all__]
    kernels = [kind for kind in kernels if isinstance(kind, type) and issubclass(kind, Kernel)]
    assert {kind for kind in kernels if "proposal" in kind._parameter_names()} == set(TAKERS)


@pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: kind.__name__)
def test_a_proposal_is_taken_by_name_and_as_an_object_and_by_place_and_keyword(kind):
    name, settings = TAKERS[kind]
    forms = [kind(name, **settings), kind(proposal=name, **settings)]
    forms += [kind(f"expfam:{name}", **settings), kind(load_proposal(name), **settings)]
    expected, *others = map(labels_after, forms)
    assert all(labels == expected for labels in others)


@pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: kind.__name__)
def test_an_unknown_name_of_a_proposal_gets_the_choices(kind):
    settings = TAKERS[kind][1]
    with pytest.raises(
        PluginError, match=r"no proposal is called 'tabel'; did you mean 'table'\? \(known: .*int8.*table"
    ):
        labels_after(kind("tabel", **settings))


@pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: kind.__name__)
def test_a_name_of_another_kind_is_refused_with_what_is_needed(kind):
    with pytest.raises(CapabilityError, match=r"needs a proposal .*; got CoinAllocator\(\)"):
        labels_after(kind("coin", **TAKERS[kind][1]))
