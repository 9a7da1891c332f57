"""What can be done to a declaration before it is compiled, as values: sampling, groups, moves.

A `Transform` says what is done; `mechc.calculus.transform` holds the rule of each class. Nothing
here imports SymPy: mechanisms, keys of the cache and run files carry these values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

from mechc.adjacency import Adjacency
from mechc.errors import DeclarationError, check_one_of


@dataclass(frozen=True)
class Transform:
    """One transformation of a declaration; its fields are the options.

    Attributes:
        word: its public name, as in run files.
        adds: name of the parameter that it adds, "" for none.
        keeps_groups: whether the records of a group pass it together.
    """

    word: ClassVar[str]
    adds: ClassVar[str] = ""
    keeps_groups: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Take text for a relation, and digits for a whole number."""
        for name, value in vars(self).copy().items():
            if name == "adjacency":
                object.__setattr__(self, name, Adjacency.of(value, sampling=True))
            elif name in ("size", "length") and value is not None:
                if not str(value).isdecimal():
                    raise DeclarationError(f"{self.word}: {name}={value!r} is not a whole number")
                object.__setattr__(self, name, int(value))

    def describe(self, name: str) -> str:
        """Return the name of what becomes of a mechanism called `name`."""
        return f"{self.word}({name})"

    @property
    def words(self) -> list[str]:
        """The word and its options, as a run file holds them."""
        values = (getattr(self, field.name) for field in fields(self))
        return [self.word, *(str(value) for value in values if value is not None)]

    def added(self, before: Iterable[Transform]) -> str:
        """Return the name of the parameter that it adds after others have added theirs."""
        earlier = sum(step.adds == self.adds for step in before)
        return f"{self.adds}_{earlier + 1}" if earlier else self.adds


class Sample(Transform):
    """A transformation that runs the mechanism on a sample, drawn at a rate."""

    adds = "sampling_rate"


@dataclass(frozen=True)
class Poisson(Sample):
    """Every record independently; `adjacency`: relation between neighbouring data sets."""

    word = "poisson"
    adjacency: Adjacency = Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class WithoutReplacement(Sample):
    """A subset of fixed size; `groups`: "whole" for groups that are in it or not as one."""

    word = "without_replacement"
    groups: str | None = None

    def __post_init__(self) -> None:
        """Refuse another word."""
        if self.groups is not None:
            check_one_of("groups", self.groups, ("whole",))

    @property
    def keeps_groups(self) -> bool:  # type: ignore[override]
        """Whether the subset takes whole groups."""
        return self.groups is not None


@dataclass(frozen=True)
class Shuffled(Transform):
    """One pass over the data in disjoint batches; `adjacency` as for `Poisson`."""

    word = "shuffled"
    adjacency: Adjacency


@dataclass(frozen=True)
class Shift(Transform):
    """The query moves `factor` times as far."""

    word = "shift"
    adds = "factor"


@dataclass(frozen=True)
class Vector(Transform):
    """Independent noise on every coordinate; `norm`: "l1" or "l2", that of the move."""

    word = "vector"
    norm: str

    def __post_init__(self) -> None:
        """Refuse another norm."""
        check_one_of("norm", self.norm, ("l1", "l2", "linf"), "vector")


@dataclass(frozen=True)
class Truncate(Transform):
    """Outputs outside a window count as revealing everything."""

    word = "truncate"


@dataclass(frozen=True)
class Group(Transform):
    """Neighbours differ in several records; `size`: how many, where the rule needs to know."""

    word = "group"
    size: int | None = None

    @property
    def adds(self) -> str:  # type: ignore[override]
        """The size, where it is a parameter."""
        return "" if self.size is not None else "group_size"


@dataclass(frozen=True)
class RandomSensitivity(Transform):
    """The query moves by one of `length` sensitivities."""

    word = "random_sensitivity"
    length: int

    @property
    def rises(self) -> list[str]:
        """Names of the first sensitivity, and of what each exceeds the one before by."""
        more = (f"sensitivities_{i + 1}_above_{i}" for i in range(1, self.length))
        return ["sensitivities_1", *more]


@dataclass(frozen=True)
class WithReplacement(Transform):
    """A batch drawn with replacement; `length`: one more than occurrences of a record."""

    word = "with_replacement"
    length: int


@dataclass(frozen=True)
class OfLength(Transform):
    """The same mechanism for lists of another length."""

    word = "of_length"
    length: int

    def describe(self, name: str) -> str:
        """The name stays."""
        return name


@dataclass(frozen=True)
class Listed(Transform):
    """The ratios of two laws that are constant on many pieces; the compiler's own."""

    word = "listed"
    keeps_groups = True


@dataclass(frozen=True)
class Unlisted(Transform):
    """Nothing, but that constant pieces are kept one by one, as a window on outputs needs them."""

    word = "unlisted"
    keeps_groups = True

    def describe(self, name: str) -> str:
        """The name stays."""
        return name


KNOWN: dict[str, type[Transform]] = {
    made.word: made
    for made in (Group, OfLength, Poisson, RandomSensitivity, Shift, Shuffled, Truncate, Vector,
                 WithReplacement, WithoutReplacement)
}  # fmt: skip


def of_words(words: Sequence[str]) -> Transform:
    """Return the transformation that `Transform.words` describes."""
    word, *options = words or [""]
    if word not in KNOWN:
        raise DeclarationError(
            f"transform={list(words)!r} is not known (expected one of {', '.join(KNOWN)})"
        )
    try:
        return KNOWN[word](*options)
    except TypeError:
        raise DeclarationError(f"transform={list(words)!r}: not the options of {word}") from None


def describe(name: str, transforms: Iterable[Transform]) -> str:
    """Return the name of a mechanism after its transformations, innermost first."""
    for step in transforms:
        name = step.describe(name)
    return name


def rates(transforms: Sequence[Transform]) -> tuple[str, ...]:
    """Return the names of the sampling rates that transformations have added."""
    return tuple(
        step.added(transforms[:i]) for i, step in enumerate(transforms) if isinstance(step, Sample)
    )
