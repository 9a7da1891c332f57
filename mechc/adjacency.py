"""Neighbouring relations, and what a pair is claimed to stand for under one of them.

An `Adjacency` says which data sets are neighbours. A `Claim` says for which relation a pair
dominates a mechanism and why. Steps compose only under one relation: `joined` finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from mechc.errors import DeclarationError, UnsupportedError, check_one_of, check_text


class Adjacency(StrEnum):
    """Which data sets are neighbours.

    `ADD_REMOVE`: one has a record more. `REPLACE`: one record differs. `ANY`: the relation that
    the sensitivity, or whatever the author measured, refers to; it joins either.
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"
    ANY = "any"

    @property
    def words(self) -> str:
        """For people: "add/remove", "replace", "any adjacency"."""
        return {"add_remove": "add/remove", "replace": "replace"}.get(self, "any adjacency")

    @classmethod
    def _missing_(cls, value: object) -> Adjacency:
        return cls.of(value)

    @classmethod
    def of(cls, value: Any, *, sampling: bool = False) -> Adjacency:
        """Return the relation a user names; `sampling`: one under which records are sampled."""
        check_one_of("adjacency", value, SAMPLED if sampling else tuple(cls))
        return cls(value)


SAMPLED = (Adjacency.ADD_REMOVE, Adjacency.REPLACE)  # relations under which records are sampled


@dataclass(frozen=True)
class Claim:
    """What the pair stands for: why its privacy profile bounds that of the mechanism.

    Attributes:
        status: "proven" when mechc checked the conditions of `theorem`; "declared" otherwise.
        theorem: short name of the theorem, "T1" or "T6" (see mechc.calculus.claims), or None.
        adjacency: neighbouring relation it holds for; "any" means the one that the sensitivity, or
            whatever the author measured, refers to.
        conditions: what was checked, in words.
        assumptions: what was not checked and must be true, in words.
        group: number of records in which neighbours may differ, in digits, or the parameter that
            says it; "" where they differ in one, or where `adjacency` leaves it open.
        about: the mechanism, where a claim stands for several.
    """

    status: Literal["proven", "declared"]
    theorem: str | None
    adjacency: Adjacency
    conditions: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    group: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        """Take text for the relation; refuse an unknown status, and words that are not text."""
        for words in (*self.conditions, *self.assumptions, self.about, self.group):
            check_text("a claim's words", words)
        object.__setattr__(self, "adjacency", Adjacency.of(self.adjacency))
        if self.status not in ("proven", "declared"):
            raise DeclarationError(f"status={self.status!r} of a claim (expected proven, declared)")

    def __getitem__(self, word: str) -> Any:
        """Return an attribute by its name, as in the record."""
        return self.record()[word]

    def record(self) -> dict[str, Any]:
        """Return the claim in plain words, as it stands in kernels and in JSON."""
        return {k: v for k, v in asdict(self).items() if v or k not in ("group", "about")}

    def under(self, adjacency: Adjacency) -> Claim:
        """Return a claim that is right for any relation as the one for a given relation."""
        return replace(self, adjacency=adjacency) if self.adjacency is Adjacency.ANY else self

    @property
    def heading(self) -> str:
        """Status, theorem and relation in one phrase."""
        theorem = f" by {self.theorem}" if self.theorem else ""
        group = f", groups of {self.group}" if self.group else ""
        return f"dominating, {self.status}{theorem}, adjacency {self.adjacency}{group}"

    def __str__(self) -> str:
        """Say it in one line."""
        parts = [f"{self.about}: {self.heading}" if self.about else self.heading]
        parts += [f"checked: {words}" for words in self.conditions]
        parts += [f"assumed: {words}" for words in self.assumptions]
        return "; ".join(parts)


NO_CLAIM = Claim(
    "declared", None, Adjacency.ANY, (), ("the answers are about this pair and no other",)
)


def joined(claims: Iterable[tuple[str, Claim]], what: str) -> Adjacency:
    """Return the one relation, and so the one size of groups, under which pairs stand together."""
    relations: dict[Adjacency, str] = {}
    sizes: dict[str, str] = {}
    for name, claim in claims:
        if claim.adjacency is not Adjacency.ANY:
            relations.setdefault(claim.adjacency, name)
        if claim.group or claim.adjacency is not Adjacency.ANY:
            sizes.setdefault(claim.group or "1", name)
    if len(relations) > 1:
        (a, one), (b, other) = sorted(relations.items())
        raise DeclarationError(
            f"{what}: {one} is for {a.words} neighbours (adjacency={a.value!r}) and {other} for "
            f"{b.words} neighbours (adjacency={b.value!r}); expected one relation"
        )
    if len(sizes) > 1:
        (a_size, one), (b_size, other), *_ = sorted(sizes.items())
        raise DeclarationError(
            f"{what}: neighbours of {one} differ in {a_size} record(s) and those of {other} in "
            f"{b_size}; expected groups of one size (mechc.group)"
        )
    return next(iter(relations), Adjacency.ANY)


@lru_cache(maxsize=64)
def weakest(claims: tuple[tuple[str, Claim], ...], adjacency: Adjacency) -> Claim:
    """Return the weakest of several claims, with all that must be true for all of them.

    Of several it is the first by name, in whatever order they are given.
    """
    ordered = sorted(claims, key=lambda named: (named[1].status == "proven", *map(repr, named)))
    if not ordered:
        return Claim("proven", "T0", adjacency, ("there are no steps",))
    name, first = ordered[0]
    assumptions = dict.fromkeys(words for _, claim in ordered for words in claim.assumptions)
    group = next((claim.group for _, claim in ordered if claim.group), "")
    return replace(
        first, adjacency=adjacency, assumptions=tuple(assumptions), group=group, about=name
    )


ONE_RECORD = {
    "poisson": "the records of a group are not sampled together (T6 is about one record); use "
    "group(poisson(m), size)",
    "without_replacement": "the records of a group are not in the subset together (T7 is about one "
    "record); for Poisson samples group(poisson(m), size) is proven",
    "with_replacement": "the records of a group are not drawn together; for Poisson samples "
    "group(poisson(m), size) is proven",
    "random_sensitivity": "the moves replace those of the group; list the moves of a whole group, "
    "of the mechanism without group()",
    "random_allocation": "the records of a group are not put into steps together (T11 is about one "
    "record)",
    "shuffled": "the records of a group are not in one batch (T9 is about one record)",
}
"""Steps whose pair is for neighbours that differ in one record, and what to do for groups."""


def refuse_groups(step: str, name: str) -> None:
    """Refuse a step that is about neighbours which differ in one record."""
    if step in ONE_RECORD:
        raise UnsupportedError(f"{step}({name}): {ONE_RECORD[step]}")
