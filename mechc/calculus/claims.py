"""Why a pair bounds a mechanism: derived from how it was built, or recorded as declared.

Input: a declaration. Output: a `Claim`, "proven" only where every condition of a theorem was
checked symbolically.

T1, shifted noise: let the noise p be unimodal on the line, or on the integers with integer shifts.
Then H_a(p || p(. - s)) is non-decreasing in |s| for either sign of s and every a > 0, because
1 - H = int min(p(x), a p(x - s)) dx is an integral over t of the overlap of {p > t} with a shifted
{p > t/a}: two nested intervals, whose overlap shrinks as one moves. So the shift by the sensitivity
dominates all shorter shifts of its sign. Of both signs when the noise is symmetric.

T3, independent noise on coordinates: let p be log-concave on R^d. Then min(p(x), a p(x - v)) is
log-concave in (x, v), and so is its integral over x, 1 - H_a, as a function of v (Prékopa): H is
largest at an extreme point of the set of moves v. For an l1 ball that is one coordinate, for
Gaussian noise and an l2 ball all directions are equal.

T6, Poisson sampling: Zhu, Dong, Wang 2022, Theorem 11.

T7, sampling without replacement: Balle, Barthe, Gaboardi 2018, Theorem 9
(mechc.calculus.transform.sampling).

T8, random upward moves: p(x-s)/p(x) grows with x for s > 0 when p is log-concave, so a half line
separates the mixture of the moves from no move best, and longer moves only add to its mass. For
Gaussian noise also for vectors: Choquette-Choo et al. 2024, Corollary 4.7.

T9, data processing: Blackwell. A pair that gives another by post-processing dominates it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mechc.adjacency import Adjacency, Claim, refuse_groups
from mechc.calculus.noise_shape import Shape, is_log_concave, shape_of
from mechc.declare.declaration import Declaration, Derived, Moves, Poisson, Shift
from mechc.errors import DeclarationError, UnsupportedError

BETWEEN = "between neighbours"
CLIPPED = (
    "when one record is added or removed: a clipping norm; replacing it moves the query up to twice"
    " as far"
)
REPLACED = "when one record of the subset is replaced: up to twice a clipping norm"


def claim_of(declaration: Declaration, between: str = BETWEEN) -> Claim:
    """Return the claim of a declaration: the author's own, else what can be derived.

    Args:
        declaration: what is declared.
        between: for additive noise, between which inputs its sensitivity is the distance.

    Raises:
        DeclarationError: the pair is not the one that its construction leads to, or its author's
            claim is not a declared one.
        UnsupportedError: a sample of groups, by a theorem for one record.
    """
    if declaration.claim is not None:
        declaration.check_claim()
        return declaration.claim
    built = declaration.construction
    _check_construction(declaration)
    if isinstance(built, Shift):
        return _shifted(declaration, built, between)
    if isinstance(built, Poisson):
        return _sampled(built)
    if isinstance(built, Moves):
        return _moved(built)
    if isinstance(built, Derived):
        return _derived(built)
    return Claim("declared", None, Adjacency.ANY, assumptions=(
        "the pair dominates the mechanism in the direction of its adjacency",))  # fmt: skip


def _check_construction(declaration: Declaration) -> None:
    """Refuse a pair, or the record of how it was built, that was exchanged for another."""
    from mechc.calculus.transform import replayed

    built = declaration.construction
    if built is None:
        return
    if isinstance(built, Shift):
        x = declaration.variable
        again = replace(declaration, p=built.noise.subs(x, x - built.sensitivity), q=built.noise)
    else:
        again = replayed(built.base, built.step)
    same = type(declaration) is Declaration and _mathematics(again) == _mathematics(declaration)
    if not same or again.construction != built:
        raise DeclarationError(
            f"{declaration.name}: P and Q are not those that the declaration was built with, which "
            "its claim is about; declare the new pair by mechanism() or additive()"
        )


def _mathematics(declaration: Declaration | None) -> Any:
    """What `Declaration.canonical` says, as it stands in the fields now."""
    if declaration is None:
        return None
    of = declaration
    domains = [(p.symbol, *p.info[1:6]) for p in of.parameters]
    inner = _mathematics(of.reverse), _mathematics(of.tag)
    return of.measure, of.variable, of.p, of.q, of.support, of.atoms, domains, inner


def _base(built: Poisson | Moves | Derived, between: str = BETWEEN) -> Claim:
    """The claim of the base, refused where it is of groups and the step is for one record."""
    base = claim_of(built.base, between)
    if base.group and not built.step.keeps_groups:
        refuse_groups(built.step.word, built.base.name)
    return base


def _shifted(declaration: Declaration, built: Shift, between: str) -> Claim:
    """T1, if the noise is unimodal."""
    noise = replace(declaration, p=built.noise, q=built.noise, construction=None)
    try:
        shape = shape_of(noise)
    except UnsupportedError as error:
        shape = Shape(unimodal=None, symmetric=None, how=f"shape of the noise unknown: {error}")
    limit = f"the query moves by at most {built.sensitivity}"
    if shape.symmetric:
        adjacency, limit = Adjacency.ANY, f"{limit} {between}"
        symmetry = "the noise is symmetric, so both signs of the move are covered"
    else:
        adjacency = Adjacency.ADD_REMOVE
        limit = f"{limit}, and only upwards, when the record is present"
        symmetry = "the noise is not known to be symmetric: moves downwards are another pair"
    group = "" if built.group is None else str(built.group)
    if shape.unimodal:
        return Claim("proven", "T1", adjacency, (f"the noise is unimodal ({shape.how})", symmetry),
                     (limit,), group)  # fmt: skip
    if shape.unimodal is False:
        return Claim("declared", None, adjacency, (symmetry,), (
            f"the noise is not unimodal ({shape.how}), so shorter moves may reveal more: the query "
            f"moves by exactly {built.sensitivity} or not at all",), group)  # fmt: skip
    return Claim("declared", "T1", adjacency, (symmetry,),
                 (f"the noise is unimodal ({shape.how})", limit), group)  # fmt: skip


def _sampled(built: Poisson) -> Claim:
    """T6, if the base pair dominates the remove direction."""
    replaces = built.adjacency is Adjacency.REPLACE
    base = _base(built, CLIPPED if replaces else BETWEEN)
    sampling = f"every record enters the sample independently with probability {built.rate}"
    if replaces:
        return Claim("declared", None, Adjacency.REPLACE, base.conditions, (
            *base.assumptions, sampling, "the pair of the worst data sets is the one in which all "
            "other records leave the query in the middle"))  # fmt: skip
    if base.adjacency is Adjacency.REPLACE:
        return Claim("declared", "T6", Adjacency.ADD_REMOVE, base.conditions, (
            *base.assumptions, sampling,
            "the base pair, declared for replacement, also dominates removal"))  # fmt: skip
    return Claim(base.status, "T6", Adjacency.ADD_REMOVE, (
        f"the base pair dominates ({base.status}, {base.theorem or 'by assertion'})",
        *base.conditions), (*base.assumptions, sampling))  # fmt: skip


def _moved(built: Moves) -> Claim:
    """T8, for these and shorter moves, if the noise is log-concave; else for exactly these."""
    base = _base(built)
    replaces = base.adjacency is Adjacency.REPLACE
    adjacency = Adjacency.REPLACE if replaces else Adjacency.ADD_REMOVE
    noise: Declaration | None = built.base
    while noise is not None and not isinstance(noise.construction, Shift):
        noise = None if noise.construction is None else noise.construction.base
    asserted = noise is not None and noise.claim is not None  # by the author, of the noise
    said = base.assumptions if asserted else ()
    if noise is not None and isinstance(noise.construction, Shift):
        density = noise.construction.noise
        if is_log_concave(replace(noise, p=density, q=density, construction=None)):
            return Claim("declared" if asserted else "proven", "T8", adjacency, (
                "the noise is log-concave, so that larger outputs speak for larger moves",),
                (*said, f"the query moves up by at most {built.moves}"), built.group)  # fmt: skip
    return Claim("declared", None, adjacency, (), (
        *said, f"the query moves up by exactly {built.moves}: the noise was not proved "
        "log-concave, which T8 needs, and without that shorter moves may reveal more (mixture() of "
        "one event for each move is proven for unimodal noise, T9)"), built.group)  # fmt: skip


def _derived(built: Derived) -> Claim:
    """The base's claim, carried over by the theorem of the step."""
    between = {"T7": REPLACED, None: CLIPPED}.get(built.theorem, BETWEEN)
    base = _base(built, between)
    fits = base.adjacency if built.adjacency is Adjacency.ANY else built.adjacency
    # one pair of noise that is not symmetric is not that of both signs of a replacement
    same = base.adjacency in (Adjacency.ANY, fits)
    proven = same and built.theorem is not None and base.status == "proven"
    return Claim("proven" if proven else "declared", built.theorem, fits, (
        f"the base pair dominates ({base.status}, {base.theorem or 'by assertion'})",
        *base.conditions, *built.conditions), (*base.assumptions, *built.assumptions),
        "" if built.step.keeps_groups else base.group)  # fmt: skip
