"""The independent checker refuses what was edited: kernels function by function, certificates field
by field, digests and seals made good each time."""

import ast
import contextlib
import copy
import hashlib
import json
from functools import partial

import numpy as np
import pytest
import sympy as sp
from typer.testing import CliRunner

pytest.importorskip("flint")

from shared_functions import digests

import mechc
from mechc.cli.commands import app
from mechc.declare import mechanism as words
from mechc.declare import positive, rate, real
from mechc.kernel.cache import MARK, seal
from mechc.kernel.emit import with_law
from mechc.verify.certificate import emission
from mechc.verify.recheck import SHARED, Kernel, main, recheck
from mechc.verify.recheck.comparison import Comparison, compared
from mechc.verify.recheck.declaration import Pair
from mechc.verify.recheck.search import Vector
from mechc.verify.result import Check

pytestmark = pytest.mark.oracle
WHERE = {  # kinds of faults: where they are
    "everywhere": "True",
    "far": "abs({0}) >= 30.0",
    "beyond the tails": "abs({0}) > 1e5",
    "large parameters": "theta[0] > 1000.0",
    "a window": "2.0 < theta[0] < 2.1",
    "late elements": "i >= 1000",
}
OFFERED = ("log_p", "log_q", "loss", "cgf", "cdf_p", "sf_p", "cdf_q", "sf_q", "loss_inverse_1")


def faults(text):
    """(what, maker of a text) with one fault in each function of a kernel, of every kind."""
    names = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    for name in names:
        plain = name.removesuffix("_many")
        for kind, where in WHERE.items():
            many = name != plain
            if plain.rstrip("_1") not in {n.rstrip("_1") for n in OFFERED} or name == "breakpoints":
                kinds = ("everywhere", "large parameters")
                if (
                    name not in ("branches", "strip", "log_infinite_mass", "atoms")
                    or kind not in kinds
                ):
                    continue
            elif (kind == "late elements" and not many) or (
                many and name.startswith("loss_inverse") and kind != "late elements"
            ):
                continue
            yield f"{name}: {kind}", partial(planted, text, name, where)


def is_same(text, faulty, name):
    """Whether a function of the parameters alone, such as an empty table, has no fault to show."""
    if name not in ("branches", "strip", "log_infinite_mass", "atoms"):
        return False
    at = [tuple(p[7][0] for p in Kernel(text)["PARAMETERS"])]
    at.append((2e3, *at[0][1:]))
    return all(
        np.array_equal(*(Kernel(t)(name, v) for t in (text, faulty)), equal_nan=True) for v in at
    )


def planted(text, name, where):
    tree = ast.parse(text)
    (function,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    first = function.args.args[0].arg
    variable = f"{first[:-1]}s[i]" if name.endswith("_many") else first
    where = "abs({0}) > 35.0" if name == "cgf" and "1e5" in where else where
    condition = where.format(variable)
    for node in ast.walk(function):
        for field, value in ast.iter_fields(node):
            written = isinstance(node, ast.Assign) and "out[" in ast.unparse(node.targets[0])
            if field == "value" and (written or isinstance(node, ast.Return)) and value is not None:
                changed = f"({ast.unparse(value)}) + (1e-4 if {condition} else 0.0)"
                setattr(node, field, ast.parse(changed, mode="eval").body)
    return resealed(ast.unparse(ast.fix_missing_locations(tree)) + "\n", text)


def resealed(changed, text):
    """The original with the functions of the changed text, its digests made good."""
    wanted = {n.name: n for n in ast.parse(changed).body if isinstance(n, ast.FunctionDef)}
    lines = text.rpartition(MARK)[0].splitlines()
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef) and ast.dump(node) != ast.dump(wanted[node.name]):
            start = min(part.lineno for part in (node, *node.decorator_list)) - 1
            lines[start : node.end_lineno] = ast.unparse(wanted[node.name]).splitlines()
    made = "\n".join(lines) + "\n"
    stated = Kernel(seal(made))
    return seal(made.replace(stated["DIGEST"], stated.digest))


def forged(content, text):
    """The certificate with the digests of another kernel text, and a good seal."""
    content = copy.deepcopy(content)
    content["kernel_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    content["kernel_digest"] = Kernel(text).digest
    return sealed(content)


def sealed(content):
    content.pop("seal", None)
    written = json.dumps(content, indent=2, sort_keys=True)
    return {**content, "seal": hashlib.sha256(written.encode()).hexdigest()}


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    folder, known = tmp_path_factory.mktemp("certified"), {}

    def of(name):
        if name not in known:
            mechanism = mechc.load(name)
            path = mechanism.emit(folder / f"{name}.py")
            certificate = mechanism.verify()
            assert certificate.ok
            known[name] = mechanism, path.read_text(), json.loads(certificate.to_json())
        return known[name]

    return of


def problems(folder, text, content, *more):
    kernel, certificate = folder / "kernel.py", folder / "certificate.json"
    kernel.write_text(text)
    certificate.write_text(json.dumps(content))
    return recheck(kernel, certificate, *more)


def test_shared_functions_are_those_that_are_shipped():
    """If this fails, and the change is wanted: python tests/problems/shared_functions.py"""
    assert digests() == set(SHARED)


@pytest.mark.few(0)
@pytest.mark.parametrize(
    "bump",
    [
        "1e-3 if abs(X - 3.3) < 1e-9 else 0.0",
        "1e-3 * math.exp(-((X - 3.3) * 1e6) * ((X - 3.3) * 1e6))",
    ],
)
def test_a_narrow_fault_in_both_forms_is_refused(bump, certified, tmp_path):
    _, text, content = certified("gaussian")
    tree = ast.parse(text)
    for function in tree.body:
        if getattr(function, "name", "") in ("log_q", "log_q_many"):
            *_, last = (n for n in ast.walk(function) if isinstance(n, (ast.Assign, ast.Return)))
            fault = bump.replace("X", "xs[i]" if "many" in function.name else "x")
            last.value = ast.parse(f"({ast.unparse(last.value)}) + ({fault})", mode="eval").body
    faulty = resealed(ast.unparse(ast.fix_missing_locations(tree)) + "\n", text)
    found = problems(tmp_path, faulty, forged(content, faulty))
    assert any("log_q(3.3) is" in problem for problem in found)


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["abs(z.imag) > 50.0", "z.imag < -1.0"])
def test_a_small_fault_of_a_generating_function_far_up_is_refused(where, certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    tree = ast.parse(text)
    (cgf,) = (n for n in tree.body if getattr(n, "name", "") == "cgf")
    for node in ast.walk(cgf):
        if isinstance(node, ast.Return):
            changed = f"({ast.unparse(node.value)}) + (1e-7 if {where} else 0.0)"
            node.value = ast.parse(changed, mode="eval").body
    faulty = resealed(ast.unparse(ast.fix_missing_locations(tree)) + "\n", text)
    (found, *_) = problems(tmp_path, faulty, forged(content, faulty))
    assert found.startswith("cgf")


def test_a_claim_that_was_edited_everywhere_is_shown_as_unchecked(certified, tmp_path, capsys):
    _, text, content = certified("discrete_laplace")
    body = text.rpartition(MARK)[0]
    edits = {'"theorem": "T1"': '"theorem": "T3"', "True, 1.0, (": "True, 9.0, ("}
    for old, new in edits.items():
        assert old in body
        body = body.replace(old, new, 1)
    stated = Kernel(seal(body))
    faulty = seal(body.replace(stated["DIGEST"], stated.digest))
    made = forged(content, faulty)
    made["stated"]["CLAIM"]["theorem"] = "T3"
    made["stated"]["PARAMETERS"][1][6] = 9.0
    kernel, certificate = tmp_path / "kernel.py", tmp_path / "certificate.json"
    kernel.write_text(faulty)
    certificate.write_text(json.dumps(sealed(made)))
    assert main([str(kernel), str(certificate)]) == 0  # nothing in the two files speaks against it
    said = capsys.readouterr().out
    assert "not checked: the claim" in said and "'T3'" in said and "sensitivity=9.0" in said


def test_a_strip_that_ends_too_early_is_refused(certified, tmp_path):
    _, text, content = certified("gaussian")
    tree = ast.parse(text)
    (strip,) = (n for n in tree.body if getattr(n, "name", "") == "strip")
    strip.body[-1] = ast.parse("return np.array([-1.0, 0.0])").body[0]
    faulty = resealed(ast.unparse(ast.fix_missing_locations(tree)) + "\n", text)
    (found, *_) = problems(tmp_path, faulty, forged(content, faulty))
    assert "is finite, outside the strip" in found


@pytest.mark.parametrize(
    "name",
    ["discrete_laplace", *(pytest.param(n, marks=pytest.mark.slow)
                           for n in ("laplace", "gaussian", "exponential", "truncated_laplace"))],
)  # fmt: skip
def test_faults_of_every_kind_are_refused(name, certified, tmp_path):
    _, text, content = certified(name)
    assert problems(tmp_path, text, content) == []
    missed = []
    every = 1 if name != "discrete_laplace" else 17  # all of them where there is time
    for what, make in list(faults(text))[::every]:
        faulty = make()
        if is_same(text, faulty, what.partition(":")[0]):
            continue
        if not problems(tmp_path, faulty, forged(content, faulty)):
            missed.append(what)
        check = Check("emission", "identity")
        emission(text, faulty, check)
        assert not check.ok
    assert missed == []


def test_shared_functions_that_were_changed_are_refused(certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    faulty = planted(text, "complex_exp", "abs(z) > 1e6")
    assert "complex_exp" in problems(tmp_path, faulty, forged(content, faulty))[0]


BESIDE = {
    "import": ("import math\n", "import cmath as math\n"),
    "flags": ('"error_model": "numpy",', '"error_model": "numpy", "fastmath": True,'),
    "types": ('"float64(float64, float64[::1])")\ndef loss(',
              '"float32(float64, float64[::1])")\ndef loss('),
    "decorator": ('@compiled("float64(float64, float64[::1])")\ndef loss(', "@half\ndef loss("),
    "assignment": ("BRANCHES = (", "math.exp = math.expm1\nBRANCHES = ("),
    "second name": ("SYMMETRIC = ", "loss = SYMMETRIC = "),
    "self-check": ("    errors = {}\n", "    errors = {}\n    return []\n"),
    "statement": ('if __name__ == "__main__":\n', "if True:\n    log_p = log_q\nif True:\n"),
    "claim": ('"adjacency": "any"', '"adjacency": "replace"'),
    "reference": ("CHECKS = (\n    ((", "CHECKS = (\n    ((1"),
    "protocol": ("PROTOCOL = 2", "PROTOCOL = 3"),
}  # fmt: skip


@pytest.mark.parametrize("what", BESIDE)
def test_what_stands_beside_the_functions_is_read_too(what, certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    old, new = BESIDE[what]
    assert old in text
    changed = text.replace(old, new, 1).rpartition(MARK)[0]
    faulty = seal(changed)
    with contextlib.suppress(ValueError):
        faulty = seal(changed.replace(Kernel(text)["DIGEST"], Kernel(faulty).digest))
        content = forged(content, faulty)
    assert problems(tmp_path, faulty, content)


def test_branches_under_other_numbers_are_refused(certified, tmp_path):
    """The place of an error on one that was not there ended the checker with a traceback."""
    _, text, content = certified("discrete_laplace")
    faulty = planted(text, "branches", "True")
    assert problems(tmp_path, faulty, forged(content, faulty))
    renumbered = resealed(
        text.replace("    return out[:n]", "    out[:, 5] += 7.0\n    return out[:n]"), text
    )
    assert renumbered != text and problems(tmp_path, renumbered, forged(content, renumbered))


def test_reference_values_are_not_left_out(certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    head, begin, rest = text.partition("CHECKS = (")
    theta, (x, *_) = Kernel(text)["CHECKS"][0][0], Kernel(text)["CHECKS"][0][1][0]
    emptied = f"({theta}, (({x}, None, None, None, None, None),)),)\n\n"
    made = (head + begin + emptied + rest[rest.index("\n\n") :]).rpartition(MARK)[0]
    stated = Kernel(seal(made))
    faulty = seal(made.replace(stated["DIGEST"], stated.digest))
    assert "no reference value" in problems(tmp_path, faulty, forged(content, faulty))[0]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "where"),
    [("sf_p", "x > 8.0 * theta[0]"), ("sf_q", "x > 30.0 * theta[0]"),
     ("cdf_q", "x < 1e-5 * theta[0]")],
)  # fmt: skip
def test_faults_behind_a_border_that_moves_are_refused(name, where, certified, tmp_path):
    _, text, content = certified("exponential")
    faulty = (
        planted(text, name, where)
        .replace("+ (1e-4 if", "* (1.001 if")
        .replace("else 0.0)", "else 1.0)")
    )
    faulty = resealed(faulty, text)
    assert problems(tmp_path, faulty, forged(content, faulty))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where"),
    [("loss_inverse_0", "theta[0] < 0.2"), ("loss_inverse_0_many", "0.05 < {0} < 0.11"),
     ("loss_inverse_0_many", "i > 1500")],
)  # fmt: skip
def test_faults_of_inverses_are_refused(name, where, certified, tmp_path):
    """Far from typical parameters, where many losses have no inverse; in array forms alone."""
    _, text, content = certified("gumbel")
    faulty = planted(text, name, where)
    assert problems(tmp_path, text, content) == []
    assert problems(tmp_path, faulty, forged(content, faulty))


@pytest.mark.slow
def test_logs_beyond_doubles_are_infinite(tmp_path):
    """Log densities of -1.797693134899e308 as well, of a sample of Gumbel noise far out."""
    sampled = mechc.poisson(mechc.load("gumbel"), sampling_rate=0.1)
    text = sampled.emit(tmp_path / "gumbel.py").read_text()
    assert problems(tmp_path, text, json.loads(sampled.verify("full").to_json())) == []


@pytest.mark.parametrize(
    ("name", "where"),
    [("loss_inverse_0_many", "0.05 < {0} < 0.055"), ("log_q_many", "0.3 < {0} < 0.3000001"),
     ("loss_many", "i == 123457"), ("log_p_many", "theta[0] == 0.7")],
)  # fmt: skip
def test_windows_of_array_forms_are_seen_however_narrow(name, where):
    text = mechc.load("gumbel").source
    assert Kernel(text).oddities() == []
    problems = Kernel(planted(text, name, where)).oddities()
    assert f"{name} is not the scalar function written for arrays" in problems


@pytest.mark.few(0)
@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [("discrete_laplace", "1.0, sensitivity, 1.0,", "1.0, sensitivity + 1.0, 1.0,", "not so near"),
     ("discrete_laplace", "1.0, sensitivity, 1.0,",  # one integer, where that is all between
      "1.0, sensitivity - (1.0 if sensitivity < 1.5 else 0.0), 1.0,", "no branch covers"),
     pytest.param("raised_cosine", "[-1.5, 0.5]", "[-1.5, 0.6]", "inside the strip",
                  marks=pytest.mark.slow),
     pytest.param("gumbel", "math.expm1(t0), math.inf]", "math.expm1(t0) * 1.001, math.inf]",
                  "inside the strip", marks=pytest.mark.slow)],
)  # fmt: skip
def test_borders_a_little_too_far_out_are_refused(name, old, new, says, certified, tmp_path):
    """Of an increasing branch, beyond which the loss is flat, and of the strip."""
    _, text, content = certified(name)
    assert text.count(old) == 1 and problems(tmp_path, text, content) == []
    faulty = resealed(text.replace(old, new), text)
    assert says in problems(tmp_path, faulty, forged(content, faulty))[0]


LOSS = "-math.inf\n{0}else:\n{0}    {1}"
FAR = {
    "another infinity": ("exponential", "not -inf", "-math.inf", "math.inf", [
        LOSS.format(" " * 4, "return sensitivity / scale"),
        LOSS.format(" " * 8, "out[i] = sensitivity / scale\n")]),
    "a number instead": ("exponential", "log_q(", "-math.inf", "-3.0", [
        LOSS.format(" " * 4, "return -x"), LOSS.format(" " * 8, "out[i] = -x / scale - c0")]),
    "a limit": ("gumbel", "the limit at", "sensitivity", "1.000001 * sensitivity", [
        "-math.inf, sensitivity / scale, 0.0]"]),
    "a tail": ("cauchy", "log sf_", ")", ") + 1e-18", ["math.atan2(1.0, -x / scale)"]),
}  # fmt: skip


@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=pytest.mark.slow) if w.startswith("a l") or w == "a tail" else w
             for w in FAR])  # fmt: skip
def test_infinite_values_and_places_far_out_are_compared(what, certified, tmp_path):
    """An infinite value was near any other, and limits and tails far out were not looked at."""
    name, says, old, new, places = FAR[what]
    _, text, content = certified(name)
    faulty = text
    for place in places:
        assert place in text
        faulty = faulty.replace(place, place.replace(old, new, 1))
    faulty = resealed(faulty, text)
    assert says in problems(tmp_path, faulty, forged(content, faulty))[0]


@pytest.mark.slow
def test_sampled_losses_with_plateaus_are_accepted(tmp_path):
    """At scales of 1e-6 the moment at a tilt of 100 grows next to an end, and is finite."""
    mechanism = mechc.poisson(mechc.load("laplace"))
    text, content = mechanism.source, json.loads(mechanism.verify().to_json())
    assert problems(tmp_path, text, content) == []


@pytest.mark.few(1, 2)
@pytest.mark.parametrize(
    ("fault", "says"),
    [("out[0, 0] = 1.0 if theta[0] < 0.05 else out[0, 0]", "is 1.0"),
     ("out[0, 0] *= 1.0 + 1e-9", "is 0."),
     ("out[1, 0] = 0.5", "is 0.5"), ("out = np.empty((0, 1))", "there are 2 weights, not 0")],
)  # fmt: skip
def test_weights_are_what_their_words_say(fault, says, tmp_path):
    x, c = real("x"), positive("c")
    normal = sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)
    near = sp.exp(-c) * normal + (1 - sp.exp(-c)) * normal.subs(x, x - 1)
    made = mechc.load(words("shared", p=near, q=normal, variable=x, parameters=(c,)))
    text, content = with_law(made.source), json.loads(made.verify().to_json())
    content = forged(content, text)
    assert problems(tmp_path, text, content) == []
    start = text.index("def weights")
    answer = text[start:].partition("return ")[2].partition("\n")[0]
    later = f"out = {answer}\n    {fault}\n    return out"
    faulty = text[:start] + text[start:].replace(f"return {answer}", later, 1)
    faulty = resealed(faulty, text)
    assert says in problems(tmp_path, faulty, forged(content, faulty))[0]


@pytest.mark.slow
def test_strips_of_which_nothing_is_known_are_not_refused(tmp_path):
    x, a, b = real("x"), rate("a"), rate("b")
    laws = [sp.exp(-((x - m) ** 2) / 2) / sp.sqrt(2 * sp.pi) for m in range(3)]
    near = (1 - a - b) * laws[0] + a * laws[1] + b * laws[2]
    made = mechc.load(words("shares", p=near, q=laws[0], variable=x, parameters=(a, b)))
    text, content = with_law(made.source), json.loads(made.verify().to_json())
    assert problems(tmp_path, text, forged(content, text)) == []


LOOP = "    for i in range(xs.size):\n        x = xs[i]\n"
LAST = "            out[i] = c0 - u0\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [("u0 + c0\n", "u0 + c0 + math.exp(-1e12 * (x + 3.123) * (x + 3.123))\n"),
     (LOOP, f"    n = 1e-300\n{LOOP}        c0, n = c0 + n, n * 1.5\n"),
     (LOOP, f"{LOOP}        c0 = c0 + 1e-13\n"),
     (LAST, f"{LAST}    else:\n        out[i] = out[i] + 1e-13\n"),
     (LAST, f"{LAST}    out[i] = out[i] + 1e-13\n"),
     (LAST, f"{LAST}        out[i] = out[i] + 1e-3 * (xs[i] - x)\n"),
     (LAST, f"{LAST}        out[i] = out[i] + 0.0 * xs[i - 1]\n")],
)  # fmt: skip
def test_array_forms_have_no_smooth_window_and_pass_nothing_on(old, new):
    text = mechc.load("laplace").source
    assert old in text and Kernel(text).oddities() == []
    problems = Kernel(text.replace(old, new, 1)).oddities()
    assert problems == ["log_q_many is not the scalar function written for arrays"]


@pytest.mark.slow
@pytest.mark.parametrize("name", mechc.available())
def test_every_built_in_kernel_is_accepted(name, certified, tmp_path):
    _, text, content = certified(name)
    assert content["ok"] and problems(tmp_path, text, content) == []


def test_limits_that_are_not_known_are_none():
    """On a falling branch the one that is known was taken for the largest loss."""
    made = mechc.load("gaussian_scale")
    kernel, theta = Kernel(made.source), (0.5, 2.0)  # the loss falls from 0 on
    vector = Vector(kernel, Pair(made.declaration.canonical), theta, typical=True)
    for at, refused in ((3.0, False), (1.0, True)):
        row = (1.0, 3.0, -1.0, np.nan, kernel("loss", at, theta), 0.0)
        assert bool([*Comparison(kernel).branch(row, vector)]) is refused


@pytest.mark.slow
def test_a_zero_that_only_exact_digits_of_pi_show_is_one(certified):
    """P has no density at the end of its support, where 1 + cos is 1e-103 in 50 digits."""
    _, text, content = certified("raised_cosine")
    others = [vector for vector in content["vectors"] if vector != [5.0, 5.0]]
    content = {**content, "vectors": [[5.0, 5.0], *others[:3]]}
    assert compared(Kernel(text), Pair(content["canonical"]), content) == []


def test_a_law_of_another_text_is_refused(certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    lawful = with_law(text)
    assert problems(tmp_path, lawful, forged(content, lawful)) == []
    faulty = planted(lawful, "nodes", "theta[0] > 35.0")
    assert "nodes" in problems(tmp_path, faulty, forged(content, faulty))[0]


@pytest.mark.parametrize("name", ["nodes", "add_branch"])
def test_what_is_shipped_for_laws_of_another_kind_is_refused(name, certified, tmp_path):
    """Sums over integers of a density gave a delta of 0; branches of one integer were left out."""
    for of, other in (("discrete_laplace", "laplace"), ("laplace", "discrete_laplace")):
        _, text, content = certified(of)
        lawful, trees = with_law(text), [ast.parse(with_law(certified(m)[1])) for m in (of, other)]
        here, there = ([getattr(n, "name", "") for n in tree.body].index(name) for tree in trees)
        trees[0].body[here] = trees[1].body[there]
        faulty = resealed(ast.unparse(trees[0]), lawful)
        found = problems(tmp_path, faulty, forged(content, faulty))
        assert [problem.partition(" is not the ")[0] for problem in found] == [name]


def edits(content):
    """(what, certificate) with one entry changed, of the certificate or of one check."""
    changes = {
        "name": "other", "schema": 99, "kernel_digest": "0" * 16, "ok": 1, "vectors": [],
        "versions": {**content["versions"], "mechc": "9.9"},
        "canonical": content["canonical"].replace("-1", "-2"), "declaration_digest": "0" * 64,
        "kernel_sha256": "0" * 64, "checks": [],
        "stated": {**content["stated"], "CLAIM": {**content["stated"]["CLAIM"], "assumptions": []}},
    }  # fmt: skip
    for field, value in changes.items():
        yield field, {**content, field: value}
    for field in ("level", "seconds", "proof"):  # which are none of what is certified
        yield field, {**content, field: 0}
    moved = [[v * 1.001 if i == 0 else v for i, v in enumerate(row)] for row in content["vectors"]]
    yield "vectors: moved", {**content, "vectors": moved}
    for field, value in {"level": "full", "vectors": [[-1.0, 1.0]], "proof": "the pope's"}.items():
        yield f"remarks: {field}", {**content, "remarks": {**content["remarks"], field: value}}
    yield "stated: more", {**content, "stated": {**content["stated"], "PROOF": "the pope's"}}
    for number, check in enumerate(content["checks"]):
        here = f"{check['name']}: "
        yield f"{here}removed", edited(content, number, None)
        yield f"{here}failure", edited(content, number, {"failures": ["no"]})
        yield f"{here}points", edited(content, number, {"points": 10**9})
        yield f"{here}notes", edited(content, number, {"notes": ["proved by the pope"]})
        yield f"{here}tolerance", edited(content, number, {"tolerance": 1.0})
        tight = check["tolerance"] / 2 or 1e-14
        yield f"{here}another tolerance", edited(content, number, {"tolerance": tight})
        other = "identity" if check["kind"] != "identity" else "values"
        yield f"{here}kind", edited(content, number, {"kind": other})
        for error in {1.0, 0.0, (check["max_error"] or 1e-17) / 2} - {check["max_error"]}:
            yield f"{here}error {error}", edited(content, number, {"max_error": error})
        place = {"theta": content["vectors"][0], "x": 0.0, "found": 0.1, "enclosure": "0.1"}
        yield f"{here}another place", edited(content, number, {"where": place, "max_error": 0.0})
        if check["where"]:
            if check["name"] != "loss_inverse":
                yield f"{here}where", edited(content, number, {"where": {}, "max_error": None})
                wide = {**check["where"], "enclosure": "[0.0 +/- 1e300]"}
                yield f"{here}enclosure", edited(content, number, {"where": wide})
            for more in ({"found": 0.123}, {"law": "both"}):
                wrong = {**check["where"], **more}
                yield f"{here}{more}", edited(content, number, {"where": wrong})


def edited(content, number, change):
    content = copy.deepcopy(content)
    if change is None:
        content["checks"].pop(number)
    else:
        content["checks"][number].update(change)
    return content


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_edited_certificates_are_refused(every, certified, tmp_path):
    """With a seal that was made good; one that was not refuses any edit, of notes too."""
    mechanism, text, content = certified("discrete_laplace")
    certificate = mechanism.verify()
    missed = []
    for what, changed in list(edits(content))[::every]:
        if not problems(tmp_path, text, sealed(changed)):
            missed.append(what)
        assert certificate.differences(json.dumps(changed)) or what == "seconds", what
    assert missed == []
    noted, name = copy.deepcopy(content), content["checks"][0]["name"]
    noted["remarks"]["checks"][name]["notes"] = ["proved by the pope"]
    assert "seal is broken" in str(problems(tmp_path, text, noted))
    assert certificate.differences(json.dumps(noted)) == [name]
    twice = json.dumps(content).replace('"ok": true, "rem', '"ok": false, "ok": true, "rem')
    (tmp_path / "certificate.json").write_text(twice)
    assert "stands there twice" in recheck(tmp_path / "kernel.py", tmp_path / "certificate.json")[0]
    for unread in (twice, "[" * 100_000):
        assert certificate.differences(unread) == ["it is no certificate"]
    assert certificate.differences(json.dumps(content)) == []


@pytest.mark.parametrize("number", [
    "9**9**9**9", "Pow(Integer(9), Pow(Integer(9), Pow(Integer(9), Integer(9))))",
    "factorial(Integer(1000000000))", "Pow(Integer(9), Integer(2), evaluate=False)",
])  # fmt: skip
def test_numbers_that_take_ages_are_no_declaration(number, certified, tmp_path):
    """Of whoever wrote the certificate: its reader never ended."""
    _, text, content = certified("discrete_laplace")
    written = content["canonical"].replace("Integer(-1)", number, 1)
    digest = hashlib.sha256(written.encode()).hexdigest()
    made = sealed({**content, "canonical": written, "declaration_digest": digest})
    assert written != content["canonical"]
    assert "not a declaration" in problems(tmp_path, text, made)[0]


def test_a_certificate_speaks_of_the_declaration_that_is_meant(certified, tmp_path):
    mechanism, text, content = certified("discrete_laplace")
    known = tmp_path / "declaration.txt"
    known.write_text(mechanism.declaration.canonical + "\n")
    for right in (mechanism.declaration.digest, str(known)):
        assert problems(tmp_path, text, content, right) == []
    other = mechc.load("laplace").declaration.digest
    assert "another declaration" in problems(tmp_path, text, content, other)[0]


def test_the_checker_runs_nothing_but_functions_of_numbers(certified, tmp_path):
    _, text, content = certified("discrete_laplace")
    ran = tmp_path / "ran"
    body = text.rpartition(MARK)[0]
    for line in (f"open({str(ran)!r}, 'w')", f"def f(x=open({str(ran)!r}, 'w')): return x"):
        faulty = seal(f"{body}\n{line}\n")
        problems(tmp_path, faulty, sealed({**content, "kernel_sha256": "0" * 64}))
    inside = seal(body.replace("    return ", f"    open({str(ran)!r}, 'w')\n    return ", 3))
    assert problems(tmp_path, inside, content)
    assert not ran.exists()


EDITS = [
    ("NAME = ", "NAME = 'gaussian'"), ("NAME = ", "NAME = 'nobody'"), ("NAME = ", ""),
    ("PARAMETERS = (", "PARAMETERS = ((), "), ("CAPABILITIES = {", "CAPABILITIES = {'x': 1, "),
    ("def strip(theta)", "def stripped(theta)"), ("    return ", "    return 0.0 * "),
    ("def loss(x, theta)", "def loss(x, theta, y)"), ("import math", "import os"),
    ("        return ", "        return 1.0 / 0.0 + "), ("PROTOCOL = 2", "PROTOCOL = 7"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), EDITS)
def test_verification_of_an_edited_kernel_is_a_verdict(old, new, certified, tmp_path):
    _, text, _ = certified("discrete_laplace")
    path = tmp_path / "kernel.py"
    lines = [new if old in line and old.endswith("= ") else line.replace(old, new)
             for line in text.splitlines()]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 1
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_a_kernel_with_another_sentence_is_flagged(certified, tmp_path):
    _, text, _ = certified("discrete_laplace")
    path = tmp_path / "kernel.py"
    path.write_text(text.replace('"status": "proven"', '"status": "declared"'))
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 1 and "emission" in done.stdout
