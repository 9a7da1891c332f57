"""What is meant by words that are not known: those of other libraries, and near misses.

A table for each kind of place. Of several meanings of a word the first that is known at its place
is meant; one that is no name says what to do instead, and is known everywhere.
"""

from collections.abc import Iterable, Mapping
from sys import modules
from typing import NoReturn

Words = Mapping[str, tuple[str, ...]]  # the meanings of each


def _by_theirs(by_ours: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The meanings of words, which stand behind each meaning with blanks between them."""
    found: dict[str, tuple[str, ...]] = {}
    for ours, words in by_ours.items():
        for word in words.split():
            found[word] = (*found.get(word, ()), ours)
    return found


_RATES = (
    "q rate sample_rate sampling_prob sampling_probability sample_probability subsampling_rate "
    "gamma prob"
)
ARGUMENTS = _by_theirs({
    "delta": "target_delta", "epsilon": "target_epsilon eps", "log_delta": "log_target",
    "alpha": "fpr", "fpr": "alpha", "orders": "alphas alpha",
    "count": "num_steps steps", "steps": "num_steps iterations count",
    "epochs": "num_epochs", "sigma": "noise_multiplier std noise standard_deviation stddev",
    "noise_multiplier": "sigma noise std standard_deviation",
    "scale": "noise_scale b parameter noise", "size": "group_size k",
    "sensitivity": "max_grad_norm l2_norm_clip clip_norm",
    "clip_norm": "max_grad_norm l2_norm_clip clipping_norm sensitivity",
    "sampling_rate": _RATES, "poisson": f"sampling_rate {_RATES}",
    "batch_size": f"lot_size sampling_rate {_RATES}",
    "dataset_size": "n sample_size num_examples number_of_examples num_samples",
    "batch_cap": "max_batch_size truncated_batch_size", "sampler": "poisson_sampling",
    "method": "accountant", "advantage": "attack_risk",
    "beside": "others releases besides alongside", "target": "epsilon delta",
    "counts": "steps count epochs", "categories": "k buckets num_buckets",
    "adjacency": "neighbors neighbours neighbouring neighboring_relation neighbouring_relation "
                 "relation",
})  # fmt: skip
NOISE = "sigma", "scale", "noise_multiplier"  # words for how much there is
TRAINING = ARGUMENTS | _by_theirs({  # of `dpsgd`
    "batch_size, which divided by dataset_size is the rate, or poisson, which takes a rate alone":
        f"sampling_rate {_RATES}",
    "sampler='shuffled'": "shuffle shuffled",
    "mechc.group(run, size), of what dpsgd returns": "group_size",
})  # fmt: skip
VALUES = _by_theirs({  # of mechanisms, methods, relations, samplers, kinds of figures, errors
    "gaussian": "normal", "discrete_laplace": "geometric", "randomized_response": "rr",
    "renyi": "rdp moments moments_accountant zcdp", "clt": "gdp mu_gdp",
    "replace": "substitution substitute replacement replace_one swap bounded",
    "add_remove": "add_or_remove_one add_or_remove unbounded replace_special",
    "truncated": "truncated_poisson capped cut", "fixed": "without_replacement",
    "allocation": "random_allocation balls_and_bins", "shuffled": "shuffle",
    "steps": "epsilon epochs curve composition", "profile": "delta privacy_profile privacy_curve",
    "tradeoff": "roc fnr beta tpr f", "loss": "pld prv losses privacy_loss",
    "densities": "density noise pdf pair", "standard_deviation": "std sd stddev rmse variance",
    "absolute_error": "mae",
    "mechc.with_replacement(mechanism, dataset_size=, batch_size=)": "with_replacement",
})  # fmt: skip
QUESTIONS = _by_theirs({
    "epsilon": "eps get_eps get_epsilon get_epsilon_for_delta compute_epsilon get_approxdp "
               "get_privacy_spent", "zcdp": "rho", "gdp": "mu",
    "delta": "get_delta get_delta_for_epsilon", "renyi": "rdp get_rdp compute_rdp",
    "tpr": "tpr_at_fpr fpr", "beta": "fnr get_beta", "advantage": "get_advantage",
    "tradeoff": "f roc", "epsilon_curve": "get_epsilon_curve epsilons",
    "check": "compare", "steps": "events uses", "parameters": "params sigma scale sensitivity",
    "upper": "value high hi", "lower": "low lo",  # of what is found
    "value": "result sigma scale noise_multiplier sampling_rate steps epochs batch_size",
    "standard_deviation": "std sd stddev", "variance": "var", "best": "winner",
})  # fmt: skip
PACKAGE = _by_theirs({
    "mechc.dpsgd(...), or mechc dpsgd on the command line": "dpsgd dp_sgd compute_dp_sgd_privacy",
    "mechc.poisson('gaussian', sampling_rate=...)":
        "sampled_gaussian subsampled_gaussian poisson_gaussian",
    "mechc.poisson(...)": "subsample poisson_sample subsampled",
    "mechc.calibrate(mechc.dpsgd, solve_for=...)":
        "get_noise_multiplier find_noise_multiplier calibrate_noise compute_noise",
    "mechc.integrations.opacus": "opacus privacyengine prvaccountant",
    "mechc.integrations.dp_accounting":
        "dp_accounting from_event from_dp_accounting to_dp_accounting pldaccountant rdpaccountant",
    "mechc.open(path)": "load_run open_run read", "mechc.optimise(...)": "optimize",
    "mechc.zcdp(...), in Python": "zcdp", "mechc.rdp(...), in Python": "rdp renyi_dp",
    "pure_dp, a bound for it": "sparse_vector above_threshold svt",
    "run.plot(methods=[...]), or mechc compare on the command line": "compare",
    "run.save(path, append=True), or mechc record on the command line": "record",
    "mechc.dpsgd(sampler='shuffled')": "shuffled",
    **{f"mechc.load(...).{call}": call.partition("(")[0]
       for call in ("verify()", "explain()", "report(path)")},
    **{f"mechc.reductions.{call}": call
       for call in ("matrix_mechanism", "tree_aggregation", "banded_matrix", "truncated_poisson",
                    "drawn_with_replacement")},
})  # fmt: skip
OF_MECHANISM = {("exponential", "epsilon"): "exponential_mechanism"}  # which has that parameter
OPTIONS = {  # of other commands
    "epsilon": "mechc delta takes --epsilon",
    "delta": "mechc epsilon takes --delta",
    "without_replacement": "that is mechc dpsgd --sampler fixed, or mechc.without_replacement",
    "plot": "mechc curve, compare and tournament take --plot",
    "mechanisms": "names of mechanisms follow the command, as in mechc tournament laplace",
    "clear": "mechc cache clear, without dashes",
    "size": "mechc cache size, without dashes",
}
COMMANDS = {
    "help": "--help", "version": "--version", "completion": "--install-completion",
    "explain": "show", "datasheet": "report",
    "plot": "curve, compare or tournament with --plot", "train": "dpsgd", "kernel": "emit",
    "compile": "warm NAME, or list --compile", "sample": "epsilon --poisson RATE",
}  # fmt: skip


def meaning(word: str, known: Iterable[str], words: Words = ARGUMENTS) -> str:
    """Return what a word of other libraries is among the known ones, else ""."""
    known = list(known)
    found = words.get(word) or words.get(_as_python(word), ())
    return next((ours for ours in found if ours in known or not ours.isidentifier()), "")


def suggestion(word: str, known: Iterable[str], words: Words = ARGUMENTS) -> str:
    """Return "; did you mean ...?" for a word that means a known one or is near it, else ""."""
    from difflib import get_close_matches

    known = list(known)
    near = meaning(word, known, words) or next(
        iter(get_close_matches(word if word in known else _as_python(word), known, 1)), ""
    )
    return f"; did you mean {near}?" if near else ""


class Hinted:
    """What says of an attribute that it has not what was meant."""

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what there is not."""
        known = [*vars(self), *dir(type(self))]
        hint = "" if name.startswith("_") else suggestion(name, known, QUESTIONS)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")


def of_package(name: str) -> str:
    """Return what was meant by an attribute that is a function of the package, else ""."""
    return f"; did you mean mechc.{name}(...)?" if name in modules["mechc"].__all__ else ""


def _as_python(word: str) -> str:
    return word.lower().replace("-", "_")
