"""Every public function and method, called with junk: an answer, or an error of mechc's own."""

import contextlib
import inspect
import math
import warnings
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from sympy import exp, oo

import mechc
from mechc import declare, individual, reductions
from mechc.errors import DeclarationError, MechcError
from mechc.integrations.opacus import MechcAccountant as OpacusAccountant

JUNK = {
    "None": None, "True": True, "word": "nonsense", "empty": "", "bytes": b"x", "nan": math.nan,
    "infinite": math.inf, "below": -math.inf, "negative": -1, "zero": 0, "half": 0.5,
    "huge": 1e300, "integer": 10**400, "complex": 1j, "list": [], "nans": [math.nan],
    "words": ["x"], "nested": [[1, [2]]], "pair": (2.0, -1.0), "dict": {}, "wrong": {"x": None},
    "set": {1}, "object": object(), "type": list, "function": lambda *_: None,
    "array": np.array([[0.5, 2.0]]), "nothing": np.array([]), "objects": np.array([None]),
    "time": np.datetime64("2020-01-01"), "times": [np.datetime64("2020"), 0.5],
    "decimal": Decimal("NaN"), "iterator": iter(()),
    "module": math,
}  # fmt: skip


def event():
    return mechc.load("gaussian")(sigma=2.0)


def run():
    return event() * 3


def laplace():
    return mechc.load("laplace")


def noise():
    return laplace()(scale=1.0).noise


def table():
    return mechc.from_pmfs([0.25, 0.75], [0.75, 0.25])


def arena():
    return mechc.tournament(target=(1.0, 1e-3), mechanisms=["laplace"])


X, SCALE = declare.real("x"), declare.positive("scale")
SENSITIVITY = declare.positive("sensitivity", default=1)
DISCRETE = [0.25, 0.75]
ASKED = {"method": "auto", "direction": "both", "rtol": 1e-6, "max_work": 1e7, "certified": False}
TARGET = {"target": (1.0, 1e-3), "count": 1, "sampling": None, "sensitivity": 1.0}
FUNCTIONS = {
    "available": (mechc.available, {}),
    "Composition": (mechc.Composition, {"parts": lambda: [(event(), 2)]}),
    "calibrate": (mechc.calibrate, {
        "mechanism": laplace, "solve_for": "scale", "epsilon": 1.0, "delta": 0.1, "count": 1,
        "advantage": None, "tpr": None, "fpr": None, "beside": None, "method": "auto",
        "direction": "both", "max_work": 1e7, "parameters": {"sensitivity": 1.0}}),
    "dpsgd": (mechc.dpsgd, {
        "dataset_size": 100, "batch_size": 10, "noise_multiplier": 2.0, "epochs": None, "steps": 5,
        "sampler": "poisson", "adjacency": None, "clip_norm": 1.0, "batch_cap": None}),
    "from_losses": (mechc.from_losses, {
        "losses": [-1.0, 0.5], "masses": DISCRETE, "infinite_mass": 0.0, "step": 0.5, "add": None,
        "symmetric": False, "adjacency": "any", "name": "x", "because": "y"}),
    "from_pmfs": (mechc.from_pmfs, {
        "p": DISCRETE, "q": DISCRETE, "adjacency": "any", "name": "x", "because": "y"}),
    "group": (mechc.group, {"what": laplace, "size": 2}),
    "load": (mechc.load, {"what": "laplace"}),
    "methods": (mechc.methods, {}),
    "mixture": (mechc.mixture, {
        "events": lambda: [event(), event()], "weights": DISCRETE, "step": 1e-2, "adjacency": None,
        "revealing": 0.0, "assumed": (), "beneath": None}),
    "open": (mechc.open, {"path": "missing.json", "allow_files": False}),
    "optimise": (mechc.optimise, {
        "mechanism": "laplace", "over": {"scale": (2.0, 3.0)}, "minimise": "variance", **TARGET,
        "parameters": {}, "tolerance": 0.5}),
    "poisson": (mechc.poisson, {
        "what": laplace, "sampling_rate": 0.1, "adjacency": "add_remove"}),
    "post_process": (mechc.post_process, {"event": event, "edges": [0.0, 1.0]}),
    "radial": (mechc.radial, {"what": event, "dimension": 2}),
    "random_allocation": (mechc.random_allocation, {
        "what": event, "steps": 3, "selected": 1, "epochs": 1}),
    "random_sensitivity": (mechc.random_sensitivity, {
        "what": "laplace", "sensitivities": [1.0, 2.0], "weights": DISCRETE}),
    "rdp": (mechc.rdp, {"orders": [2.0], "epsilons": [0.1], "adjacency": "any"}),
    "shift": (mechc.shift, {"what": "laplace", "factor": 2.0}),
    "tournament": (mechc.tournament, {
        **TARGET, "mechanisms": lambda: ["laplace"], "rank": "entropy", "progress": None}),
    "truncate": (mechc.truncate, {"what": "laplace", "lower": -1.0, "upper": 1.0}),
    "vector": (mechc.vector, {"what": "gaussian", "norm": "l2"}),
    "with_replacement": (mechc.with_replacement, {
        "what": "laplace", "dataset_size": 10, "batch_size": 2}),
    "without_replacement": (mechc.without_replacement, {"what": "laplace", "sampling_rate": 0.1}),
    "zcdp": (mechc.zcdp, {"rho": 0.1, "xi": 0.0, "adjacency": "any"}),
    "banded_matrix": (reductions.banded_matrix, {
        "encoder": np.eye(2), "sigma": 1.0, "sampling_rate": 0.1}),
    "matrix_mechanism": (reductions.matrix_mechanism, {
        "encoder": np.eye(2), "sigma": 1.0, "participations": None, "separation": None,
        "most": None}),
    "tree_aggregation": (reductions.tree_aggregation, {"steps": 4, "sigma": 1.0}),
    "truncated_poisson": (reductions.truncated_poisson, {
        "event": event, "sampling_rate": 0.1, "dataset_size": 100, "batch_cap": 20}),
    "drawn_with_replacement": (reductions.drawn_with_replacement, {
        "event": event, "dataset_size": 100, "batch_size": 2}),
    "Bound": (mechc.Bound, {
        "lower": 0.1, "estimate": 0.1, "upper": 0.2, "method": "x", "status": "proven"}),
    "additive": (declare.additive, {
        "name": "x", "noise": exp(-(abs(X) / SCALE)) / (2 * SCALE), "variable": X,
        "sensitivity": SENSITIVITY, "parameters": (SCALE, SENSITIVITY), "support": (-oo, oo),
        "lattice": False, "about": "", "refs": (), "claim": None}),
    "mechanism": (declare.mechanism, {
        "name": "x", "variable": X, "p": exp(-abs(X)) / 2, "q": exp(-abs(X - SCALE)) / 2,
        "parameters": (SCALE,), "support": (-oo, oo), "lattice": False, "outcomes": (),
        "atoms": (), "reverse": None, "tag": None, "about": "", "refs": (), "claim": None}),
    "outcomes": (declare.mechanism, {"name": "x", "outcomes": [DISCRETE, DISCRETE]}),
    "count": (declare.count, {"name": "k", "lo": 1, "default": 2, "typical": None}),
    "dominates": (declare.dominates, {"adjacency": "add_remove", "because": "x"}),
    "lists": (lambda length: declare.lists(length=length)(
        lambda n: declare.mechanism("x", outcomes=[(1 / n, 1 / n)] * n)), {"length": 2}),
    "numbers": (declare.numbers, {
        "name": "w", "length": 2, "lo": 0.0, "hi": 1.0, "typical": (0.1, 0.5)}),
    "parameter": (declare.parameter, {
        "name": "w", "lo": 0.0, "hi": 1.0, "lo_open": True, "hi_open": False, "integer": False,
        "default": 0.5, "typical": (0.1, 0.5)}),
    "positive": (declare.positive, {"name": "w", "default": 1.0, "typical": (0.1, 1.0)}),
    "probabilities": (declare.probabilities, {"name": "w", "length": 2}),
    "rate": (declare.rate, {"name": "w", "default": 0.1, "typical": (0.1, 0.5)}),
    "real": (declare.real, {"name": "w"}),
    "integer": (declare.integer, {"name": "w"}),
}  # fmt: skip
METHODS = {
    "delta": (run, {"epsilon": 1.0, **ASKED}),
    "log_delta": (run, {"epsilon": 1.0, **ASKED}),
    "epsilon": (run, {"delta": 1e-5, "log_delta": None, **ASKED}),
    "tradeoff": (run, {"alpha": 0.1, **ASKED}),
    "beta": (run, {"fpr": 0.1}),
    "tpr": (run, {"fpr": 0.1}),
    "advantage": (run, {"method": "auto"}),
    "bayes_risk": (run, {"prior": 0.5}),
    "reconstruction": (run, {"baseline": 0.1}),
    "renyi": (run, {"orders": 2.0, "direction": "both"}),
    "zcdp": (run, {"direction": "both"}),
    "gdp": (run, {"epsilon_max": 1.0, "max_work": 1e6}),
    "epsilon_curve": (run, {"delta": 1e-5, "counts": [1, 2], "method": "auto"}),
    "plot": (
        run,
        {
            "path": None,
            "kind": "steps",
            "delta": 1e-5,
            "counts": [1, 2],
            "ax": None,
            "label": "",
            "beside": None,
            "methods": (),
            "target": None,
            "smallest": 1e-3,
            "log": False,
            "epoch": 1.0,
        },
    ),
    "save": (run, {"path": "run.json", "delta": 1e-5, "epsilon": None, "append": False}),
    "check": (run, {"epsilons": (0.1, 1.0)}),
    "cite": (run, {}),
    "steps": (run, {"direction": "remove"}),
    "evaluation": (run, {"method": "auto", "direction": "both", "rtol": 1e-6}),
    "__mul__": (run, {"count": 2}),
    "__add__": (run, {"other": event}),
    "__call__": (laplace, {"scale": 1.0, "sensitivity": 1.0}),
    "bind": (laplace, {"scale": 1.0}),
    "emit": (laplace, {"path": "k.py"}),
    "explain": (laplace, {"whole": False}),
    "report": (laplace, {"path": "r.html", "certificate": "none", "scale": 1.0}),
    "verify": (laplace, {"level": "quick", "again": False}),
    "compile": (laplace, {"progress": None}),
    "at": (event, {"sigma": 1.0}),
    "loss": (event, {"direction": "remove"}),
    "density": (noise, {"x": [0.0], "scale": 1.0}),
    "mean": (noise, {"certified": False, "scale": 1.0}),
    "variance": (noise, {"certified": False, "scale": 1.0}),
    "standard_deviation": (noise, {"certified": False, "scale": 1.0}),
    "absolute_error": (noise, {"certified": False, "scale": 1.0}),
    "entropy": (noise, {"scale": 1.0}),
    "quantile": (noise, {"probability": 0.5, "certified": False, "scale": 1.0}),
    "error_quantile": (noise, {"probability": 0.5, "certified": False, "scale": 1.0}),
    "mass": (noise, {"lo": 0.0, "hi": 1.0}),
    "__getitem__": (arena, {"name": "laplace"}),
    "Tournament.plot": (arena, {"path": None, "ax": None}),
    "under": (lambda: run().delta(1.0), {"adjacency": "any"}),
    "__lt__": (lambda: run().delta(1.0), {"other": 1.0}),
}


def made(value):
    return value() if inspect.isfunction(value) else value


def sound(ask):
    """Whether it answers, or refuses in mechc's own words; what it may not do is raise others."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.suppress(MechcError):
            return ask()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


FEW = ("None", "word", "nan", "infinite", "negative", "complex", "nested", "object", "array")
SHARES = [
    pytest.param(FEW, id="some"),
    pytest.param(tuple(JUNK.keys() - set(FEW)), id="others", marks=pytest.mark.slow),
]
CASES = [(name, function, usual) for name, (function, usual) in FUNCTIONS.items()]


@pytest.mark.parametrize(("name", "function", "usual"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("kinds", SHARES)
def test_functions(name, function, usual, kinds):
    _swept(function, usual, kinds)


@pytest.mark.few(2, 8, 17, 22, 29, 35, 42)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "check")) for n in METHODS]
)
@pytest.mark.parametrize("kinds", SHARES)
def test_methods(name, kinds):
    owner, usual = METHODS[name]
    _swept(getattr(owner(), name.rpartition(".")[2]), usual, kinds)


CALLS = {
    "no names": (lambda: mechc.with_replacement(event(), 100, 1000),
                 r"100, 1000 have no names; did you mean dataset_size=100\?.*replacement\(what"),
    "missing": (lambda: mechc.with_replacement(event()), "dataset_size, batch_size are missing"),
    "unknown": (lambda: mechc.group(event(), sise=2), r"sise=2 is not known; did you mean size\?"),
    "meant": (lambda: mechc.poisson("laplace", sample_rate=0.1), "did you mean sampling_rate"),
    "group": (lambda: mechc.group(event(), group_size=2), "did you mean size"),
    "instead": (lambda: run().delta(1.0, accountant="pld"), "did you mean method"),
    "gdp": (lambda: run().delta(1.0, method="gdp"), "did you mean clt"),
    "rho": (lambda: mechc.load("gaussian")(rho=0.1), "found by mechc.calibrate"),
    "std": (lambda: mechc.load("gaussian")(standard_deviation=1.0), "did you mean sigma"),
    "twice": (lambda: mechc.group(event(), 2, what=3), "what is given twice"),
    "method": (lambda: noise().quantile(), r"quantile: probability is missing \(expected quantile"),
    "question": (lambda: run().delta(1.0, methd="pld"), "did you mean method"),
    "class": (lambda: individual.GDPFilter(), "GDPFilter: people.* missing"),
    "class method": (lambda: individual.GDPFilter.load(), "load: path is missing"),
    "nobody": (lambda: mechc.available(3), "available: 3 has no name"),
    "bound": (lambda: mechc.Bound(1.0), "Bound: estimate, upper, method, status are missing"),
    "accountant": (lambda: OpacusAccountant().get_epsilon(), "get_epsilon: delta is missing"),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_how_things_are_called(call):
    ask, words = CALLS[call]
    with pytest.raises(DeclarationError, match=words):
        ask()


@pytest.mark.parametrize("kind", FEW)
def test_histories_of_opacus(kind):
    junk = JUNK[kind]
    for rate in (junk, 0.1):
        sound(partial(OpacusAccountant().step, noise_multiplier=junk, sample_rate=rate))
    for history in (junk, [(junk, 0.1, 3)], [(1.0, junk, 3)], [(1.0, 0.1, junk)]):
        accountant = OpacusAccountant()
        state = {"history": history, "mechanism": "mechc"}
        for asked in (junk, state):
            with contextlib.suppress(MechcError):
                accountant.load_state_dict(asked)
        accountant.history = history
        sound(partial(accountant.get_epsilon, 1e-5))
    accountant = OpacusAccountant()
    accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    sound(partial(accountant.get_epsilon, junk))


def test_errors_from_inside_are_left_alone():
    def told(_):
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="own"):
        mechc.tournament(target=(1.0, 0.1), mechanisms=["laplace"], progress=told)


def _swept(function, usual, kinds):
    known = {k: made(v) for k, v in usual.items()}
    failed = []
    for word in usual:
        for kind in kinds:
            junk = JUNK[kind]
            if (word, kind) == ("mechanisms", "None"):  # that is all of them
                continue
            try:
                name = getattr(function, "__name__", "__compared__")  # made by partialmethod
                if word in ("count", "other", "spec") and name[:2] == "__":
                    sound(partial(function, junk))
                else:
                    sound(partial(function, **{**known, word: junk}))
            except Exception as error:
                failed.append(f"{word}={kind}: {type(error).__name__}: {error}"[:200])
    assert not failed, "\n".join(failed)


def test_an_attribute_that_fails_inside_says_why(monkeypatch):
    """An AttributeError on the way to a kernel asked for the parameters again, without end."""

    def failing(*_):
        raise AttributeError("module 'x' has no attribute 'y'")

    monkeypatch.setattr("mechc.kernel.build.kernel", failing)
    with pytest.raises(AttributeError, match="module 'x' has no attribute 'y'"):
        _ = mechc.load("gaussian").parameters
