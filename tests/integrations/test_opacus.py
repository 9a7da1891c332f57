"""The accountant for Opacus.

Opacus needs torch. Without it a stand-in of what its accountants are to others (IAccountant and the
registry, as documented) takes its place; `test_a_training_loop` runs where both are installed.
"""

import abc
import importlib
import math
import sys
import types

import pytest

import mechc
from mechc.errors import DeclarationError, UnsupportedError
from mechc.integrations import opacus as ours


@pytest.fixture
def registry(monkeypatch):
    """A stand-in for Opacus 1.6 with what an engine asks of it."""
    known = {}
    module = types.ModuleType("opacus.accountants")

    def register_accountant(mechanism, accountant, force=False):
        if mechanism in known and not force:
            raise ValueError(mechanism)
        known[mechanism] = accountant

    module.IAccountant = abc.ABCMeta("IAccountant", (), {})
    module.register_accountant = register_accountant
    monkeypatch.setitem(sys.modules, "opacus", types.ModuleType("opacus"))
    monkeypatch.setitem(sys.modules, "opacus.accountants", module)
    assert ours.register() and ours.register()
    return known, module


class Optimizer:
    def __init__(self, noise_multiplier, accumulated_iterations=1):
        self.noise_multiplier = noise_multiplier
        self.accumulated_iterations = accumulated_iterations


def dpsgd(sigma, rate, steps):
    return steps * mechc.poisson(mechc.load("gaussian"), rate)(sigma=sigma)


def test_registered_by_name(registry):
    known, module = registry
    accountant = known["mechc"]()
    assert isinstance(accountant, module.IAccountant)
    assert accountant.mechanism() == known["mechc"].mechanism() == "mechc"


def test_without_opacus_nothing_is_registered(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    monkeypatch.setitem(sys.modules, "opacus.accountants", None)
    assert ours.register() is False
    assert importlib.import_module("mechc.integrations.opacus").MechcAccountant().history == []


def test_an_opacus_without_a_registry_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", types.ModuleType("opacus"))
    monkeypatch.setitem(sys.modules, "opacus.accountants", types.ModuleType("opacus.accountants"))
    with pytest.raises(UnsupportedError, match="older"):
        ours.register()


def test_steps_of_an_engine():
    accountant = ours.MechcAccountant()
    hook = accountant.get_optimizer_hook_fn(sample_rate=0.01)
    for sigma in [1.0] * 300 + [1.5] * 100:
        hook(Optimizer(sigma))
    assert accountant.history == [(1.0, 0.01, 300), (1.5, 0.01, 100)]
    assert len(accountant) == 400
    run = dpsgd(1.0, 0.01, 300) + dpsgd(1.5, 0.01, 100)
    assert accountant.composition() == run
    assert accountant.get_epsilon(1e-5) == run.epsilon(1e-5).upper
    assert accountant.get_epsilon(delta=1e-5, rtol=1e-4) >= run.epsilon(1e-5).lower


def test_below_a_pessimistic_grid():
    """The setting of Opacus' own tests, whose 6.7774 has their error of 0.01 added to it."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    accountant = ours.MechcAccountant()
    accountant.history = [(1.5, 0.04, 2249)]
    grid = pld.from_gaussian_mechanism(1.5, sampling_prob=0.04).self_compose(2249)
    known = grid.get_epsilon_for_delta(1e-5)
    assert known - 1e-4 <= accountant.get_epsilon(1e-5) <= known < 6.777395712150674


def test_accumulated_batches_may_hold_a_record_twice():
    """delta of sum_k Binomial(2, q)(k) N(k, s^2) against N(0, s^2), integrated outright."""
    from scipy.integrate import quad
    from scipy.stats import norm

    sigma, q, epsilon = 1.0, 0.3, 1.0
    accountant = ours.MechcAccountant()
    hook = accountant.get_optimizer_hook_fn(sample_rate=q)
    hook(Optimizer(sigma, 2))
    assert accountant.history == [(sigma, q, 1, 2)]

    def apart(sign):
        def density(x):
            p = sum(
                w * norm.pdf(x, k) for k, w in enumerate(((1 - q) ** 2, 2 * q * (1 - q), q * q))
            )
            pair = (p, norm.pdf(x))[::sign]
            return max(pair[0] - math.exp(epsilon) * pair[1], 0.0)

        return quad(density, -12, 14, limit=400, epsabs=1e-12)[0]

    truth = max(apart(1), apart(-1))
    found = accountant.composition().delta(epsilon)
    assert found.upper == pytest.approx(truth, rel=1e-7)
    assert found.lower > dpsgd(sigma, 2 * q, 1).delta(epsilon).upper
    adaptive = Optimizer(sigma)
    adaptive.target_unclipped_quantile = 0.5  # whose noise_multiplier is that of gradients alone
    with pytest.raises(UnsupportedError, match="adaptive clipping"):
        hook(adaptive)
    hook(Optimizer(sigma))
    hook(Optimizer(sigma, 2))
    assert [entry[2:] for entry in accountant.history] == [(1, 2), (1,), (1, 2)]


def test_state_goes_out_and_comes_back():
    first, second = ours.MechcAccountant(), ours.MechcAccountant()
    for _ in range(3):
        first.step(noise_multiplier=1.1, sample_rate=0.02)
    state = first.state_dict({"kept": 1})
    assert state == {"kept": 1, "history": [(1.1, 0.02, 3)], "mechanism": "mechc"}
    assert state["history"] is not first.history
    second.load_state_dict({**state, "history": [list(entry) for entry in state["history"]]})
    assert second.state_dict() == first.state_dict()
    second.step(noise_multiplier=1.1, sample_rate=0.02)
    assert (len(first), len(second)) == (3, 4)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"history": []},
        {"mechanism": "mechc"},
        {"history": [], "mechanism": "rdp"},
        {"history": [(1.0, 0.1)], "mechanism": "mechc"},
        {"history": [(1.0, 0.1, -2)], "mechanism": "mechc"},
    ],
)
def test_states_of_others_are_refused(state):
    with pytest.raises(ValueError, match="expected"):
        ours.MechcAccountant().load_state_dict(state)


def test_nothing_and_everything():
    accountant = ours.MechcAccountant()
    assert accountant.get_epsilon(1e-5) == 0.0
    accountant.step(noise_multiplier=0.0, sample_rate=0.0)
    assert accountant.get_epsilon(1e-5) == 0.0
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf
    accountant.history = [(1.0, 1.5, 1)]
    with pytest.raises(DeclarationError, match="sampling_rate"):
        accountant.get_epsilon(1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch and Opacus about themselves
def test_a_training_loop():
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    assert ours.register()
    data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    model = torch.nn.Linear(4, 1)
    engine = opacus.PrivacyEngine(accountant="mechc")
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=16),
        noise_multiplier=1.2,
        max_grad_norm=1.0,
    )
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    ((sigma, rate, steps),) = engine.accountant.history
    assert (sigma, rate) == (1.2, 0.25)
    assert engine.get_epsilon(1e-5) == dpsgd(1.2, 0.25, steps).epsilon(1e-5).upper
