"""All public names: a name that comes or goes is a change that users see, and is written here and in the CHANGELOG."""

import importlib
import pickle

import pytest

import expfam
from expfam import list_plugins
from expfam.params import Settings
from expfam.plugins.registry import family_class

PUBLIC = {
    "expfam": """
        AdmixtureModel BayesianHierarchy Bernoulli Categorical Columns Dataset DiagonalGaussian
        DirichletProcess Exponential Family FiniteProcess Gaussian Geometric GroupedMixture Groups HierarchicalProcess
        Known LogNormal Mixture MixtureModel Multinomial NegativeBinomial PartitionPosterior PitmanYor Poisson
        SphericalGaussian SymmetricDirichlet TopicModel VonMises VonMisesFisher ZeroMeanGaussian __version__
        check_model dendrogram_purity get_include link_groups list_plugins load_family load_proposal merge
        purity register variation_of_information
    """,
    "expfam.samplers": """
        Allocator AnchoredMoves Anchors BucketMoves Canopy CellProposal Checkpoint ClusterMoves
        ClusterTree CodeAllocator CoinAllocator CollapsedGibbs CollapsedMetropolis CollapsedSplitMerge
        CollapsedState Collect CutMoves Cycle DelayedAllocator DocumentGibbs DocumentState
        ExpectationMaximization ExpectationState
        FarAnchors FastEx FrozenAllocator FrozenSplitMerge Full GroupedGibbs GroupedPartsState GroupedProcessGibbs
        GroupedProcessSplitMerge
        GroupedProcessState GroupedProcessVariational GroupedProcessVariationalState GroupedState GroupedStream
        GroupedUncollapsedGibbs GroupedVariational GroupedVariationalState HashProposal
        HierarchicalClustering HierarchyTree Int8Proposal Kernel LinkedGibbs MemberMoves Memoized MergeState
        NearAnchors Progress Proposal PrototypeProposal RandomScan RestrictedGibbsAllocator
        SequentialAllocator ShardedData ShardedExpectationState ShardedState Snapshot SoftmaxMoves
        SparseVariational SplitMerge Stochastic StochasticEM Stop TableProposal TokenState TopicGibbs
        TopicProcessGibbs TopicProcessMerges
        TopicProcessSplitMerge TopicProcessState TopicProcessStream TopicProcessVariational TopicProcessVariationalState
        TopicState TopicStream TopicVariational Trace UncollapsedGibbs
        UncollapsedKernel UncollapsedMetropolis
        UncollapsedState UniformAnchors UpdateHyper UrnAllocator VariationalState VariationalStream WeightedRows
        load_sampler merged_clusters merged_labels sample starting_labels steps tuned_alpha tuned_family
    """,
    "expfam.structures": """
        AliasArena AliasTable CoverTree CoverTreeWarning DataCells InvertedIndex LshTables MemberLists
        MergeQueue RowTiles SignCodes SignHash WardPartners WeightedMinHash collision column_bounds
        cosine_table first_dart hoeffding_bound kl_bound nearest_centres select_top sign_projection
        split_probability
    """,
    "expfam.displays": """
        BallDisplay ClusterCards ClusterCountDisplay ClusterMeansDisplay CoarseningDisplay ColumnEvidenceDisplay
        DendrogramDisplay PairsDisplay ScatterDisplay SimilarityDisplay SizesDisplay TraceDisplay
    """,
    "expfam.dask": "GroupedMixture Mixture TopicModel columns_from_frame",
    "expfam.engines": """
        DaskEngine Engine MpiEngine Part ProcessEngine SerialEngine cut_rows load_engine
    """,
    "expfam.errors": """
        ArchiveError CapabilityError DataError DataTypeError DataWarning EngineError ExactnessWarning ExpFamError
        PluginError ResourceError ResultError SupportError UnknownNameError
    """,
    "expfam.plugins.conformance": """
        Report Result check_engine check_family check_grouped check_kernel check_proposal checks parametrize_with_checks
        parametrize_with_kernel_checks
    """,
}


def names():
    for package, text in PUBLIC.items():
        for name in text.split():
            yield package, name


@pytest.mark.parametrize("package", [package for package in PUBLIC if package != "expfam.errors"])
def test_a_package_offers_these_names_and_no_others(package):
    module = importlib.import_module(package)
    assert sorted(module.__all__) == PUBLIC[package].split()
    assert set(dir(module)) >= set(module.__all__) - {"__version__"}


def test_the_errors_are_these():
    module = importlib.import_module("expfam.errors")
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    assert sorted(name for name in own if name[0] != "_") == PUBLIC["expfam.errors"].split()


def test_every_family_with_a_name_is_imported_from_the_package():
    own = [each for each in list_plugins() if each.group == "expfam.families" and each.distribution == "expfam"]
    assert len(own) >= 14
    for each in own:
        found = family_class(each.name)
        assert getattr(expfam, found.__name__) is found


@pytest.mark.parametrize(("package", "name"), list(names()))
def test_a_public_class_or_function_is_pickled_by_reference(package, name):
    found = getattr(importlib.import_module(package), name)
    assert pickle.loads(pickle.dumps(found)) is found or name == "__version__"


def kernels_and_schedules():
    module = importlib.import_module("expfam.samplers")
    for name in PUBLIC["expfam.samplers"].split():
        found = getattr(module, name)
        if isinstance(found, type) and issubclass(found, Settings):
            try:
                yield name, found()
            except (TypeError, ValueError):  # abstract, or with arguments that have no default
                continue


@pytest.mark.parametrize(("name", "settings"), list(kernels_and_schedules()))
def test_settings_are_equal_after_a_pickle(name, settings):
    again = pickle.loads(pickle.dumps(settings))
    assert type(again) is type(settings)
    assert again == settings


def test_there_are_many_of_them():
    assert len(list(kernels_and_schedules())) > 20
