"""Random questions about the pairs of `families`, and what contradicts `reference`.

A question is (epsilon, direction, count). Answers are asked for in forked processes: the first
question of each set is the first one that its process meets, and one of the others is asked first
in a second process, which must give the same digits.
"""

import math
import os
import pickle
import time
from random import Random

import numpy as np
from families import FAMILIES, SYMMETRIC, drawn, subset
from flint import arb, ctx
from reference import BALLS, BITS, Reference, Undecided, sampled

import mechc
from mechc.errors import MechcError

SLACK = 2e-13
TURNS = 4  # at most, of the loss on a piece, next to which is asked
LOWEST = -700.0  # logs below it count as equal
FARTHEST = 600.0  # losses beyond it come from outputs near the smallest doubles
KINDS = ("plain", "poisson", "without_replacement")


def load(name, kind="plain"):
    """The mechanism of a family, plain or sampled."""
    made = FAMILIES[name].declare()
    made = made if isinstance(made, mechc.Mechanism) else mechc.load(made)
    return made if kind == "plain" else getattr(mechc, kind)(made)


def parameters(name, random, kind="plain"):
    """Random parameters, with a sampling rate near 0, anywhere, or near 1."""
    values = {k: drawn(random, domain) for k, domain in FAMILIES[name].parameters.items()}
    if kind != "plain":
        small = 10.0 ** random.uniform(-12, -1)
        values["sampling_rate"] = random.choice([small, random.random(), 1.0 - small])
    return values


def by_hand(name, values, kind="plain"):
    """The reference of the same pair."""
    values = dict(values)
    rate = values.pop("sampling_rate", None)
    pair = FAMILIES[name].pair
    if kind == "plain":
        return Reference(lambda m: pair(m, **values))
    if kind == "poisson":
        return Reference(lambda m: sampled(m, pair(m, **values), rate))
    law = SYMMETRIC[name]
    return Reference(lambda m: subset(m, law(m, **values), values["d"], rate))


def largest_losses(reference):
    """The largest finite loss and others at which it turns, as far as nodes and searches show."""
    saved, ctx.prec = ctx.prec, BITS
    try:
        pair = reference.make(BALLS)
        found = [p - q for p, q in pair.atoms if p != -math.inf and q != -math.inf]
        turns = []
        for piece, s in zip(pair.pieces, reference.panels, strict=True):
            if piece.log_p is None or piece.log_q is None or not s.lo.size:
                continue
            order = np.argsort(s.lo)
            most = np.concatenate([[-np.inf], s.loss.max(1)[order], [-np.inf]])
            above = (most[1:-1] >= most[:-2]) & (most[1:-1] > most[2:])
            places = sorted(np.flatnonzero(above).tolist(), key=lambda i: -most[1 + i])
            tops = [_top(piece, s.at(order), i) for i in places[:TURNS]]
            ends = [arb(v) if math.isfinite(v) else arb(math.copysign(2.0**900, v))
                    for v in (piece.lo, piece.hi)]  # fmt: skip
            tops += [(piece.log_p(x) - piece.log_q(x)).mid() for x in ends]
            found, turns = found + tops[:1] + tops[-2:], turns + tops[1:-2]
        found, turns = ([v for v in some if v.is_finite()] for some in (found, turns))
        return [float(max(found, default=arb(math.nan))), *map(float, turns)]
    finally:
        ctx.prec = saved


def _top(piece, s, i):
    """The largest loss in a panel and its neighbours, by sections."""
    lo, hi = (arb(float(v)) for v in (s.lo[max(i - 1, 0)], s.hi[min(i + 1, s.hi.size - 1)]))
    for _ in range(160):
        a, b = (lo + 0.4 * (hi - lo)).mid(), (lo + 0.6 * (hi - lo)).mid()
        if piece.log_p(a) - piece.log_q(a) > piece.log_p(b) - piece.log_q(b):
            hi = b
        else:
            lo = a
    return (piece.log_p(lo) - piece.log_q(lo)).mid()


def next_to(value, ulps):
    for _ in range(abs(ulps)):
        value = math.nextafter(value, math.copysign(math.inf, ulps))
    return value


@np.errstate(over="ignore", invalid="ignore")  # losses near the largest double
def questions(references, random, singles, others):
    """Questions of one step, and of 2, 3, 30 and 1000, around deltas from .5 to 1e-300."""
    tops = {d: largest_losses(r) for d, r in references.items()}
    laws = {d: _sorted_nodes(r) for d, r in references.items()}
    made = []
    for i in range(singles + others):
        direction = random.choice(["remove", "add"])
        loss, log_p, tail = laws[direction]
        if not loss.size:
            continue
        if i >= singles:
            count = random.choice([2, 2, 2, 3, 30, 1000])
            tilt = math.exp(random.uniform(-2.0, random.choice([1.0, 4.0])))
            weight = log_p + tilt * loss
            weight = np.exp(weight - weight.max())
            epsilon = count * float(weight @ loss / weight.sum()) + random.choice([0.0, 0.1])
            made.append((epsilon, direction, count))
            continue
        pick = random.random()
        if pick < 0.12 and math.isfinite(top := random.choice(tops[direction])):
            epsilon = next_to(top, random.choice([0, 0, 1, -1, 2, -2, -9, -1000]))
        elif pick < 0.27:
            epsilon = random.uniform(-2.0, 3.0)
        elif pick < 0.3:
            epsilon = random.choice([0.0, 1e-12, -1e-9, 0.5])
        else:
            target = -0.7 - random.choice([3.0, 30.0, 690.0]) * random.random() ** 2
            epsilon = float(loss[min(int(np.searchsorted(tail, target)), tail.size - 1)])
            if random.random() < 0.7:
                epsilon += random.gauss(0.0, 0.01) * (1.0 + abs(epsilon))
        made.append((epsilon, direction, 1))
    random.shuffle(made)
    return [q for q in made if abs(q[0]) < FARTHEST * q[2]]


def _sorted_nodes(reference):
    """Finite losses of nodes, largest first, logs of their masses and of the mass above."""
    loss, log_p = reference.nodes()
    keep = np.isfinite(loss)
    order = np.argsort(-loss[keep])
    loss, log_p = loss[keep][order], log_p[keep][order]
    return loss, log_p, np.logaddexp.accumulate(log_p) if log_p.size else log_p


def asked(mechanism, values, asked_questions):
    """Bounds on log delta, or what was raised, with the seconds they took."""
    try:
        event = mechanism(**values)
    except MechcError as error:
        return [(type(error).__name__, str(error), 0.0)] * len(asked_questions)
    answers = []
    for epsilon, direction, count in asked_questions:
        start = time.monotonic()
        run = event if count == 1 else count * event
        try:
            bound = run.log_delta(epsilon, direction=direction)
            answer = float(bound.lower), float(bound.upper), bound.method, bound.status
        except MechcError as error:
            answer = type(error).__name__, str(error)
        except Exception as error:
            answer = "BUG", repr(error)
        answers.append((*answer, time.monotonic() - start))
    return answers


def in_a_fork(function, *arguments):
    """The value of a function in a process forked from this one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with os.fdopen(writing, "wb") as out:
                pickle.dump(function(*arguments), out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as incoming:
        data = incoming.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


@np.errstate(over="ignore", invalid="ignore")
def contradiction(answer, reference, epsilon, count):
    """What is wrong with an answer, in words; "" where nothing is, None where it was not judged."""
    if isinstance(answer[0], str):
        return f"raises {answer[1]}" if answer[0] == "BUG" else None
    low, high, method, status = answer[:4]
    if not status.startswith("proven"):
        return None
    if not low <= high <= 0.0:
        return f"[{low!r}, {high!r}] is no interval of logs ({method})"
    try:
        least, most = reference.log_delta(epsilon, count)
        room = SLACK * max(1.0, abs(high) if math.isfinite(high) else 1.0)
        if count == 1 and (max(high, LOWEST) < least - room or low > max(most, LOWEST) + room):
            least, most = reference.one_step_in_balls(epsilon)
    except Undecided:
        return None
    low, high, least, most = (max(v, LOWEST) for v in (low, high, least, most))
    if high < least - room:
        return f"upper {high!r} is below {least!r} ({method})"
    if low > most + room:
        return f"lower {low!r} is above {most!r} ({method})"
    return ""


def examine(name, seed, kind="plain", singles=24, others=6, mechanism=None):
    """Ask one vector of parameters everything.

    Returns:
        How many questions were judged and how many not, and what is wrong, in words.
    """
    random = Random(f"{name} {kind} {seed}")
    mechanism = mechanism or load(name, kind)
    values = parameters(name, random, kind)
    try:
        forward = by_hand(name, values, kind)
        references = {"remove": forward, "add": forward.reversed()}
        wanted = questions(references, random, singles, others)
    except ValueError as unknown:
        return 0, 0, [], f"no reference: {unknown}"
    answers = in_a_fork(asked, mechanism, values, wanted)
    late = random.randrange(1, len(wanted))
    (again,) = in_a_fork(asked, mechanism, values, wanted[late : late + 1])
    wrong, judged, skipped = [], 0, 0
    where = f"{name} {kind} {values}"
    if again[:2] != answers[late][:2]:
        wrong.append(f"{where} {wanted[late]}: {answers[late]} after others, first {again}")
    for question, answer in zip(wanted, answers, strict=True):
        epsilon, direction, count = question
        found = contradiction(answer, references[direction], epsilon, count)
        judged, skipped = judged + (found is not None), skipped + (found is None)
        if found:
            wrong.append(f"{where} {question}: {found}")
    slow = [(q, a) for q, a in zip(wanted, answers, strict=True) if a[-1] > 20.0]
    refused = sorted({str(a[1])[:90] for a in answers if isinstance(a[0], str)})
    return judged, skipped, wrong, f"{slow} {refused}" if slow or refused else ""
