"""Random allocation beside PLD_accounting: python tests/bench/allocation_peer.py

One epoch and ten of Gaussian noise, delta at one epsilon in both directions, by the defaults of
both. Times are processor time, of ours at parameters that were not asked before.
"""

import importlib.metadata as metadata
import math
import time
from contextlib import suppress

import mechc

CASES = ((1.0, 100, 1, 1.0), (1.0, 1000, 1, 0.2), (1.0, 100_000, 1, 0.02), (1.0, 100, 10, 1.0))


def timed(ask):
    start = time.process_time()
    return ask(), time.process_time() - start


def peer(sigma, steps, epochs, epsilon):
    """Its lower and upper bound; nan where it has none."""
    from PLD_accounting import random_allocation_api as api
    from PLD_accounting.types import (
        AllocationSchemeConfig,
        BoundType,
        ConvolutionMethod,
        PrivacyParams,
    )  # fmt: skip

    params = PrivacyParams(
        sigma=sigma, num_steps=steps, num_selected=1, num_epochs=epochs, epsilon=epsilon
    )
    found = []
    for bound, config in (
        (BoundType.IS_DOMINATED, {"convolution_method": ConvolutionMethod.GEOM}),
        (BoundType.DOMINATES, {}),
    ):
        ask = {"params": params, "config": AllocationSchemeConfig(**config), "bound_type": bound}
        found.append(api.gaussian_allocation_delta_configurable(**ask))
    return found


def ours(sigma, steps, epochs, epsilon):
    run = epochs * mechc.random_allocation(mechc.load("gaussian"), steps=steps)(sigma=sigma)
    bound = run.delta(epsilon)
    return [bound.lower, bound.upper]


def main():
    ours(1.3, 77, 1, 0.5), ours(1.3, 77, 2, 0.5)  # what is compiled once
    with suppress(metadata.PackageNotFoundError):  # then it is passed over
        print("PLD_accounting", metadata.version("PLD_accounting"))
    print("mechc", mechc.__version__)
    print("| sigma, steps, epochs, epsilon | method | seconds | lower | upper |")
    print("| --- | --- | ---: | ---: | ---: |")
    for case in CASES:
        for name, method in (("mechc", ours), ("PLD_accounting", peer)):
            try:
                (lower, upper), seconds = timed(lambda: method(*case))  # noqa: B023
            except (ImportError, ValueError) as why:
                (lower, upper), seconds = (math.nan, math.nan), math.nan
                print(f"{name}: {why}")
            shown = ", ".join(f"{number:g}" for number in case)
            digits = 12 if name == "mechc" else 6
            row = f"{seconds:.3g} | {lower:.{digits}g} | {upper:.{digits}g}"
            print(f"| {shown} | {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
