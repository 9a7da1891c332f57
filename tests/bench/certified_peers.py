"""Where other accountants stand relative to the certified interval: python tests/bench/FILE.

Needs python-flint, dp-accounting and prv-accountant. Prints one table row for each question and
peer; add/remove adjacency, the worse of both directions for certified and dp-accounting.
"""

import warnings
from importlib import metadata

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


def main():
    for package in ("mechc", "dp-accounting", "prv-accountant", "python-flint"):
        print(package, metadata.version(package))
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


if __name__ == "__main__":
    main()
