"""What a kernel says of itself is held against its declaration."""

import pytest

import mechc
from mechc.cli import subject
from mechc.errors import CacheError
from mechc.kernel import cache
from mechc.kernel.cache import seal
from mechc.verify.certificate import emission
from mechc.verify.result import Check


@pytest.fixture(scope="module")
def text():
    return mechc.load("laplace").source


def found(text, folder):
    path = folder / "laplace.py"
    path.write_text(seal(text.rpartition("# sha256")[0]))
    check = Check("emission", "identity")
    emission(mechc.load("laplace").source, path.read_text(), check)
    return check.failures


EDITS = {
    "claim": ('"adjacency": "any"', '"adjacency": "replace"'),
    "status": ('"status": "proven"', '"status": "declared"'),
    "theorem": ('"theorem": "T1"', '"theorem": "T9"'),
    "assumption": ("the query moves by at most", "the query moves by exactly"),
    "no claim": ("CLAIM = {", "CLAIM = 3\nOTHER = {"),
    "reference": ("dwork2006calibrating", "dwork2007calibrating"),
    "a statement in a comment": ("typical range\n", "typical range\f"),
    "default": ("True, True, False, 1.0, (0.1, 5.0)", "True, True, False, 2.0, (0.1, 5.0)"),
}


@pytest.mark.parametrize("name", [*EDITS, "DIGEST", "a body"])
def test_edited_words_are_seen(name, text, tmp_path):
    if name == "DIGEST":
        digest = text.partition('DIGEST = "')[2][:16]
        old, new = digest, digest[::-1]
    else:
        old, new = EDITS.get(name, ("out[:] = math.nan", "out[:] = math.nan "))
    assert old in text and old != new
    assert found(text.replace(old, new, 1), tmp_path)


def test_untouched_words_pass(text, tmp_path):
    assert not found(text, tmp_path)


def test_a_sample_under_replacement_is_told_by_its_claim(tmp_path):
    sampled = mechc.poisson(mechc.load("gaussian"), adjacency="replace")
    mechanism, kernel = subject.find(str(sampled.emit(tmp_path / "sampled.py")))
    assert mechanism.adjacency == "replace" and kernel.DIGEST == sampled.kernel.DIGEST


SPOILT = {
    "a line that no kernel has": ("import sys", "import sys\nopen('ran', 'w')"),
    "no protocol": ("PROTOCOL = 2", "open('ran', 'w')"),
    "another spelling": ("PROTOCOL = 2", "PROTOCOL  = 2; open('ran', 'w')"),
    "another constant": ("PROTOCOL = 2", "PROTOCOLS = 2; open('ran', 'w')"),
}


@pytest.mark.parametrize("file", ["laplace.py", "laplace.txt"])
@pytest.mark.parametrize("name", SPOILT)
def test_a_file_with_anything_of_a_kernel_never_runs(name, file, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, new = SPOILT[name]
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1))
    with pytest.raises(CacheError, match="does not load"):
        subject.find(str(tmp_path / file))
    assert not (tmp_path / "ran").exists()


def test_the_claim_of_a_file_is_no_proof(tmp_path):
    laplace = mechc.load("laplace")
    loaded = mechc.load(cache.load(laplace.emit(tmp_path / "laplace.py")))
    assert laplace.claim.status == "proven" and loaded.claim.status == "declared"
    bound = loaded(scale=2.0).delta(0.1)
    assert bound.claim.status == "declared" and "kernel file" in str(bound.claim)
