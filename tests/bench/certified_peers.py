"""Where other accountants stand relative to the certified interval: python tests/bench/FILE.

Needs python-flint and whichever of dp-accounting, prv-accountant, autodp and opacus are to be
asked. Prints one line for each question and peer; add/remove adjacency, the worse of both
directions for certified and dp-accounting. Peers that answer in epsilon are asked at the certified
delta. The accountants of opacus need its class of optimizers only to hook into one, so they run
without torch, with a name in its place.
"""

import sys
import types
import warnings
from importlib import import_module, metadata, util

import mechc

warnings.simplefilter("ignore")

QUESTIONS = [
    # sigma, sampling rate (1: none), steps, epsilon
    (1.5, 0.01, 10000, 1.0), (2.0, 0.01, 3000, 1.0), (2.0, 0.01, 3000, 3.0), (20.0, 1.0, 1000, 5.0),
]  # fmt: skip


def certified(sigma, rate, steps, epsilon):
    gaussian = mechc.load("gaussian")
    event = gaussian(sigma=sigma)
    if rate < 1:
        event = mechc.poisson(gaussian, sampling_rate=rate)(sigma=sigma)
    return (steps * event).delta(epsilon, certified=True)


def dp_accounting(sigma, rate, steps, epsilon):
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    event = dp.GaussianDpEvent(sigma)
    if rate < 1:
        event = dp.PoissonSampledDpEvent(rate, event)
    accountant = PLDAccountant()
    accountant.compose(event, steps)
    return [accountant.get_delta(epsilon)]


def prv_accountant(sigma, rate, steps, epsilon):
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    prv = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
    accountant = PRVAccountant(
        prvs=[prv], max_self_compositions=[steps], eps_error=0.1, delta_error=1e-10
    )
    return list(accountant.compute_delta(epsilon, [steps]))


def autodp(sigma, rate, steps, delta):
    from autodp import mechanism_zoo, transformer_zoo

    if rate < 1:
        step = mechanism_zoo.GaussianMechanism(sigma)
        step.neighboring = "add_remove"
        sampled = transformer_zoo.AmplificationBySampling(PoissonSampling=True)
        step = sampled(step, rate, improved_bound_flag=True)
        return [transformer_zoo.Composition()([step], [steps]).approxDP(delta)]
    step = mechanism_zoo.ExactGaussianMechanism(sigma)
    return [transformer_zoo.ComposeGaussian()([step], [steps]).approxDP(delta)]


def opacus(kind, sigma, rate, steps, delta):
    if "opacus" not in sys.modules:
        places = util.find_spec("opacus").submodule_search_locations
        for name in ("opacus", "opacus.optimizers"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["opacus"].__path__ = list(places)
        sys.modules["opacus.optimizers"].DPOptimizer = object
    accountant = getattr(import_module("opacus.accountants"), kind)()
    accountant.history = [(sigma, rate, steps)]
    return [accountant.get_epsilon(delta=delta)]


def opacus_prv(*question):
    return opacus("PRVAccountant", *question)


def opacus_rdp(*question):
    return opacus("RDPAccountant", *question)


def main():
    for package in (
        "mechc", "dp-accounting", "prv-accountant", "autodp", "opacus", "python-flint"
    ):  # fmt: skip
        try:
            print(package, metadata.version(package))
        except metadata.PackageNotFoundError:
            print(package, "is not installed")
    for question in QUESTIONS:
        bound = certified(*question)
        print(f"\n{question}: certified [{bound.lower!r}, {bound.upper!r}]")
        for peer in (dp_accounting, prv_accountant):
            try:
                found = [float(v) for v in peer(*question)]
            except Exception as error:
                print(f"  {peer.__name__}: {type(error).__name__}: {str(error)[:80]}")
                continue
            gaps = ", ".join(f"{v!r} ({v / bound.upper - 1:+.1e})" for v in found)
            print(f"  {peer.__name__}: {gaps}")
        for peer in (autodp, opacus_prv, opacus_rdp):
            try:
                (found,) = peer(*question[:3], float(bound.lower))
            except Exception as error:
                print(f"  {peer.__name__}: {type(error).__name__}: {str(error)[:80]}")
                continue
            print(f"  {peer.__name__}: epsilon {float(found)!r} ({found / question[3] - 1:+.1e})")


if __name__ == "__main__":
    main()
