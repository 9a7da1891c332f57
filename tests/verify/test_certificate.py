"""Certificates: what passes, what they say, and the independent checker."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sympy

pytest.importorskip("flint")

import mechc
from mechc.cli import subject
from mechc.declare.text import declaration_from_text
from mechc.errors import DeclarationError
from mechc.kernel.build import compiled
from mechc.verify.balls.oracle import Oracle
from mechc.verify.checks import Runner
from mechc.verify.identities import WIDTH, branches, coverage
from mechc.verify.recheck import main, recheck
from mechc.verify.recheck.declaration import expression
from mechc.verify.result import Check

pytestmark = pytest.mark.oracle


def passes(certificate):
    assert certificate.ok, [(c.name, c.failures) for c in certificate.checks if not c.ok]
    assert certificate.max_rel_error <= 1e-13


@pytest.fixture(scope="module")
def laplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    mechanism = mechc.load("laplace")
    kernel = mechanism.emit(folder / "laplace.py")
    certificate = mechanism.verify()
    passes(certificate)
    written = folder / "laplace.json"
    written.write_text(certificate.to_json())
    return kernel, written, certificate


@pytest.mark.slow
@pytest.mark.parametrize("name", ["staircase", "skellam"])
def test_quick_verification_passes(name):
    passes(mechc.load(name).verify())


@pytest.mark.parametrize("name", ["gaussian", pytest.param("laplace", marks=pytest.mark.slow)])
def test_quick_verification_of_a_sampled_mechanism_passes(name):
    certificate = mechc.poisson(mechc.load(name)).verify()
    assert certificate.ok
    names = {c.name for c in certificate.checks}
    assert names >= {"log_p", "loss", "coverage", "branches", "strip"}
    assert all(c.points for c in certificate.checks if c.name in ("log_p", "log_q", "loss"))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "theta", "xs"),
    [("raised_cosine", [12.977276759735044, 0.6144615656140888, 0.08], [-12.97, -12.7, -5.0, 12.5]),
     ("skellam", [100.0, 1.0, 0.5], [-2.0, -1.0, 0.0, 1.0])],
)  # fmt: skip
def test_limits_that_are_not_known_or_rounded_as_their_logs_are_accepted(name, theta, xs):
    """One of them, not known, was taken for the other; cancelling logs, for another loss."""
    mechanism, check = mechc.without_replacement(mechc.load(name)), Check("branches", "proof")
    declaration = compiled(mechanism.origin, mechanism.transforms)
    with np.errstate(all="ignore"):
        branches(mechanism.kernel, Oracle(declaration, theta), xs, check)
    assert check.points and check.failures == []


def test_json_is_complete_and_stable(laplace):
    _, written, certificate = laplace
    content = json.loads(written.read_text())
    assert content["ok"] is True and content["schema"] == 5
    assert content["declaration_digest"] == mechc.load("laplace").declaration.digest
    assert [c["name"] for c in content["checks"]] == [c.name for c in certificate.checks]
    assert certificate.to_json() == certificate.to_json()


def test_a_certificate_is_kept_for_the_machine_code_that_was_verified(tmp_path, monkeypatch):
    monkeypatch.setenv("MECHC_CACHE", str(tmp_path))
    own = tmp_path / "own.py"  # which no other test of this process has loaded
    own.write_text(
        Path(mechc.load("pure_dp").origin.path).read_text().replace('"pure_dp"', '"own"')
    )
    mechanism = mechc.load(own)
    first, second = mechanism.verify(again=True), mechanism.verify()
    assert not first.kept and second.kept and second.to_json() == first.to_json()
    assert not mechanism.verify(again=True).kept and not mechanism.verify("full").kept
    damaged = list((tmp_path / "kernels" / "__pycache__").glob("*cgf*.nbi"))
    for file in damaged:
        file.write_bytes(file.read_bytes() + b" ")
    assert damaged and not mechanism.verify().kept


def sealed(content):
    content = {key: value for key, value in content.items() if key != "seal"}
    seal = hashlib.sha256(json.dumps(content, indent=2, sort_keys=True).encode()).hexdigest()
    return json.dumps({**content, "seal": seal})


def log_p(content):
    return next(check for check in content["checks"] if check["name"] == "log_p")


def test_independent_checker_agrees(laplace, capsys):
    kernel, written, _ = laplace
    subject.find(str(kernel))  # leaves machine code beside the file, under a name of its own
    assert main([str(kernel), str(written)]) == 0
    assert capsys.readouterr().out.startswith("re-verified\nnot checked: the claim (")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", [pytest.param("discrete_gaussian", marks=pytest.mark.slow), "shuffle", "uniform"]
)
def test_independent_checker_reads_sums_nested_pairs_and_switches(name, tmp_path):
    mechanism = mechc.load(name)
    kernel = mechanism.emit(tmp_path / "kernel.py")
    written, certificate = tmp_path / "certificate.json", mechanism.verify()
    passes(certificate)
    written.write_text(certificate.to_json())
    assert recheck(kernel, written) == []


def test_independent_checker_finds_a_wrong_mass(laplace, tmp_path):
    kernel, written, _ = laplace
    content = json.loads(written.read_text())
    content["canonical"] = content["canonical"].replace("Rational(1, 2)", "Rational(1, 3)", 1)
    content["declaration_digest"] = hashlib.sha256(content["canonical"].encode()).hexdigest()
    forged = tmp_path / "forged.json"
    forged.write_text(sealed(content))
    assert any("log_p" in problem for problem in recheck(kernel, forged))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(kernel_sha256="0" * 64), "not the one"),
        (lambda c: c.update(canonical=c["canonical"].replace("-1", "-2")), "digest"),
        (lambda c: log_p(c).update(ok=False), "failed"),
        (lambda c: log_p(c).update(max_error=1.0), "failed"),
        (lambda c: log_p(c)["where"].update(enclosure="[1.5 +/- 1e-20]"), "outside"),
        (lambda c: log_p(c).update(tolerance=1.0), "wider"),
        (lambda c: c["checks"].pop(0), "has not been checked"),
        (lambda c: c.update(checks=[]), "has not been checked"),
        (lambda c: c.pop("vectors"), "not a certificate"),
        (lambda c: c["vectors"].pop(), "not those that the ranges"),
        (lambda c: c["vectors"].__setitem__(0, c["vectors"][1]), "not those that the ranges"),
        (lambda c: c["vectors"][0].__setitem__(0, 1e9), "not those that the ranges"),
        (lambda c: log_p(c)["where"].update(theta=[0.5, -1.0]), "the largest error is"),
    ],
)
def test_independent_checker_refuses(laplace, tmp_path, capsys, change, message):
    kernel, written, _ = laplace
    content = json.loads(written.read_text())
    change(content)
    forged = tmp_path / "forged.json"
    forged.write_text(sealed(content))
    assert main([str(kernel), str(forged)]) == 1
    assert message in capsys.readouterr().out


def test_a_kernel_whose_text_is_not_that_of_its_digest_is_refused(laplace, tmp_path):
    kernel, written, _ = laplace
    wrong = kernel.read_text().replace("0.6931471805599453", "0.6931471806")
    content = json.loads(written.read_text())
    content["kernel_sha256"] = hashlib.sha256(wrong.encode()).hexdigest()
    forged, file = tmp_path / "forged.json", tmp_path / "wrong.py"
    forged.write_text(sealed(content))
    file.write_text(wrong)
    assert any(
        "DIGEST" in problem or "kernel_digest" in problem for problem in recheck(file, forged)
    )


def test_canonical_text_is_read_by_whitelist():
    with pytest.raises(ValueError, match="not a declaration"):
        expression("__import__('os').system('true')")
    with pytest.raises(ValueError, match="not a declaration"):
        expression("Symbol.__class__")
    assert expression("Or(false, true)") == sympy.true  # and `false` is no symbol
    assert expression("And(false, true)") == sympy.false


def test_kernel_files_find_their_declaration(tmp_path):
    sampled = mechc.poisson(mechc.load("laplace"))
    path = sampled.emit(tmp_path / "kernel.py")
    mechanism, kernel = subject.find(str(path))
    assert mechanism.name == "poisson(laplace)" and kernel.DIGEST == sampled.kernel.DIGEST


def test_unknown_level_is_refused():
    with pytest.raises(DeclarationError, match="level"):
        mechc.load("laplace").verify("thorough")


def test_command_line(tmp_path):
    from typer.testing import CliRunner

    from mechc.cli.commands import app

    done = CliRunner().invoke(app, ["verify", "pure_dp", "-o", str(tmp_path / "c.json")])
    assert done.exit_code == 0 and "verified" in done.stdout
    assert json.loads((tmp_path / "c.json").read_text())["ok"]


@pytest.mark.slow
def test_weights_moved_one_at_a_time_make_no_law():
    """1/3, 1/3, 0 carry no mass of one, whatever the kernel; 1/3, 1/3, 1/3 do."""
    mechanism = mechc.load("mixture_of_gaussians")
    for last, kept, expected in ((0.0, 1, True), (1 / 3, 1, True), (1 / 3, 0, False)):
        theta = (1.3, 0.4, 0.8, 0.5, 1 / 3, 1 / 3, last)
        rows = mechanism.kernel.branches(np.array(theta))[:kept]
        check = Check("coverage", "identity", WIDTH)
        oracle = Oracle(mechanism.declaration, theta)
        coverage(SimpleNamespace(branches=lambda _, rows=rows: rows), oracle, True, check)
        assert check.ok is expected


@pytest.mark.parametrize(("moved", "expected"), [(0.0, True), (1e-9, False)])
def test_branches_beside_poles_cover_all_mass(moved, expected):
    """An ulp next to the poles of arcsine noise carries 1e-8; ends of branches are rounded."""
    noise = declaration_from_text("arc", noise="1/(pi*sqrt(x*(a-x)))", support=("0", "a"))
    ends = (0.0, 0.3, 4.1, 4.1 + 0.3 - moved)
    rows = np.array([(lo, hi, 0, 0, 0, 0) for lo, hi in pairwise(ends)])
    check = Check("coverage", "identity", WIDTH)
    coverage(SimpleNamespace(branches=lambda _: rows), Oracle(noise, (4.1, 0.3)), False, check)
    assert check.ok is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", ["exp(-abs(x)/b)/(2*sqrt(pi*b*abs(x)))", "exp(-abs(x-1)/b)/(2*sqrt(pi*b*abs(x-1)))"]
)
def test_verification_of_noise_with_a_pole_inside(noise):
    """Beside it losses are inverted down to the smallest outputs."""
    passes(mechc.load(declaration_from_text("pole", noise=noise)).verify())


@pytest.mark.slow
@pytest.mark.parametrize("name", mechc.available())
def test_full_verification(name):
    certificate = mechc.load(name).verify("full")
    assert certificate.ok, [(c.name, c.failures) for c in certificate.checks if not c.ok]
    assert certificate.seconds < 120


def test_an_interruption_inside_of_machine_code_is_no_failed_check():
    def interrupted(check):
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        Runner()("densities", "identity", 0.0, interrupted)
