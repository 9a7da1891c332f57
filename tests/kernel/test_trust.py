"""What a kernel text may hold, whoever wrote the words in it; which caches are believed."""

import builtins
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from built_in import declaration
from sympy import exp
from test_cache import KEY, TEXT, answer_of_a_new_process, loss, small

import mechc
from mechc.calculus import derive, normalise
from mechc.declare import additive, dominates, mechanism, positive, real, text
from mechc.errors import CacheError, DeclarationError
from mechc.kernel import build, cache
from mechc.kernel.cache import seal
from mechc.kernel.emit import emit
from mechc.kernel.lower import lower
from mechc.kernel.statements import refusal

RUN = "import builtins; builtins.ran = True"
OPENINGS = ('"""', "'''", '"', "'", "\\", '\\"""', "\n", "\r\n", "\f", "\0", "\x85", "\u2028", "")
HOSTILE = [
    *(f"a{opening}\n{RUN}\n{closing}" for opening in OPENINGS for closing in ('"""', "#", "\\")),
    f"{{{RUN}}}", "{NAME}{0}%s", f'");{RUN};("', f"',);{RUN};('", f"'}};{RUN};{{'", "#", '"',
    "'", "\\", "\\N{BULLET}", "\\x", "\u202e\u2066", "\ud800", "é ∑ 数", f"# {RUN}",
    "𝒩 é\\U0001d4a9", "a" * 5000, " ",
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_fallback", [])
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def lowered():
    return lower(derive(normalise(declaration("pure_dp"))))


def test_there_are_enough_hostile_words():
    assert len(set(HOSTILE)) >= 50


@pytest.mark.parametrize("word", HOSTILE, ids=range(len(HOSTILE)))
def test_words_never_become_statements(word, lowered):
    """Quoted everywhere at once, they come back as they were, and nothing of them runs."""
    everywhere = {"name": word, "about": word, "refs": (word,), "claim": {word: (word,)}}
    everywhere |= {"branches": (word,), "formulas": (word,), "capabilities": {word: word}}
    tables = [
        replace(t, doc=word, cases=tuple((g, tuple(replace(r, doc=word) for r in rows))
                                         for g, rows in t.cases))
        for t in lowered.tables
    ]  # fmt: skip
    functions = [replace(f, doc=f"Of {word}") for f in lowered.functions]
    text = emit(replace(lowered, **everywhere, tables=tuple(tables), functions=tuple(functions)))
    numba = SimpleNamespace(njit=lambda *_, **__: lambda function: function)
    module = {"__name__": "kernel", "numba": numba}
    exec(text.replace("import numba\n", ""), module)
    found = [module[name] for name in ("NAME", "ABOUT", "REFS", "CLAIM")]
    assert found == [word, word, (word,), {word: (word,)}]
    assert not hasattr(builtins, "ran")


X, SCALE = real("x"), positive("scale")
NOISE = {"noise": exp(-(X**2)), "variable": X, "sensitivity": SCALE, "parameters": (SCALE,)}


@pytest.mark.parametrize("word", [w for w in HOSTILE if not w.isprintable() or not w.strip()])
def test_names_are_one_printable_line(word):
    for declare in (
        lambda: mechanism(word, outcomes=((1, 1),)),
        lambda: additive(word, **NOISE),
        lambda: text.declaration_from_text(word, noise="exp(-x**2)"),
    ):
        with pytest.raises(DeclarationError, match="name="):
            declare()


@pytest.mark.parametrize("hidden", ["\ud800", "\x1b[31m", "\u202e", "\u2028", "\x00", "\x85"])
def test_prose_that_is_not_shown_as_it_is_is_refused(hidden):
    halves, word = [0.5, 0.5], f"a{hidden}b\n"
    table = mechc.from_pmfs(halves, halves)
    for say in (
        lambda: additive("plain", **NOISE, about=word),
        lambda: additive("plain", **NOISE, refs=(word,)),
        lambda: additive("plain", **NOISE, claim=dominates("any", because=word)),
        lambda: mechc.from_pmfs(halves, halves, because=word),
        lambda: mechc.from_losses([0.0], [1.0], name=word),
        lambda: mechc.mixture([table], [1.0], assumed=[word]),
    ):
        with pytest.raises(DeclarationError, match="printable text"):
            say()
    assert mechc.from_pmfs(halves, halves, because="two\nlines").claim.assumptions == (
        "two\nlines",
    )


@pytest.mark.parametrize("word", [*HOSTILE[:-2], "lambda", "ﬁ", "a b", "1a", "x.y", 3, None])
def test_parameters_have_names_of_python(word):
    with pytest.raises(DeclarationError):
        positive(word)
    if word in HOSTILE:
        with pytest.raises(DeclarationError):
            text.declaration_from_text("m", noise="exp(-x**2)", parameters=[word])


@pytest.mark.parametrize("words", [{"about": 3}, {"refs": "abc"}, {"refs": (1,)}, {"about": None}])
def test_prose_is_text(words):
    with pytest.raises(DeclarationError, match=r"is not|expected a list of words"):
        mechanism("m", outcomes=((1, 1),), **words)


INSIDE = """
@compiled("float64(float64)")
def f(x):
    return {}
"""
STRANGERS = [
    "import os", "from os import system", "import os as math", "open('x')", "A = open", "a = 1",
    "A = __import__('os')", "A = f'{1}'", "A, B = 1, 2", "A = [x for x in ()]", "A = 2 ** 9",
    "COMPILE = {}", "if True:\n    A = 1", "def f(x):\n    return x", "class A:\n    pass",
    "A: int = 1", "del math", "assert 0", "'''again'''", "for i in (): pass", "with x: pass",
    '@numba.njit("float64(float64)")\ndef f(x):\n    return x',
    '@compiled("float64(float64)", plain=1)\ndef f(x):\n    return x',
    '@compiled("float64(float64)", True)\ndef f(x):\n    return x',
    "@compiled(open('x'))\ndef f(x):\n    return x",
    "@compiled(\"float64(float64).__class__\")\ndef f(x):\n    return x",
    '@compiled("float64(float64)")\ndef compiled(x):\n    return x',
    '@compiled("float64(float64)")\ndef Compiled(x):\n    return x',
    '@compiled("float64(float64)")\ndef f(x=open("x")):\n    return x',
    '@compiled("float64(float64)")\ndef f(x: open("x")):\n    return x',
    '@compiled("float64(float64)")\ndef f(*x):\n    return x',
    '@compiled("float64(float64)")\ndef self_check(x):\n    return x',
    '@compiled("float64(float64)")\ndef max(x):\n    return x',
    INSIDE.format("x") + INSIDE.format("x"),
    *(INSIDE.format(one) for one in (
        "open(x)", "x.__class__", "math.__loader__", "np.load(x)", "np.lib", "eval('x')", "{1: x}",
        "(lambda: x)()", "[y for y in x]", "f'{x}'", "'x'", "(y := x)", "getattr(x, 'a')", "x()",
        "numba.njit", "np.array(x, dtype=object)", "max(*x)", "globals()", "print(x)", "unknown",
        "x.y", "().real.__class__", "sys.exit()", "compiled('float64(float64)')",
        "Compiled(x, 'float64(float64)', True)", "self_check()", "f.py_func(x)",
        "np.empty.__globals__", "(yield x)",
    )),
]  # fmt: skip


@pytest.mark.parametrize("statement", STRANGERS)
def test_other_statements_are_refused(statement, tmp_path):
    text = f"{TEXT % 1.0}\n{statement}\n"
    assert refusal(TEXT % 1.0) is None
    assert refusal(text) is not None
    path = tmp_path / "handed.py"
    path.write_text(text)
    for load in (lambda: cache.store(KEY, "small", seal(text)), lambda: cache.load(path)):
        with pytest.raises(CacheError, match=r"does not load: (line|it is not Python)"):
            load()
    assert cache.lookup(KEY) is None


def test_machine_code_beside_a_file_that_is_handed_over_is_not_run(tmp_path):
    path = tmp_path / "handed.py"
    path.write_text(small())
    bytecode = compile("raise SystemExit('ran')", str(path), "exec")
    beside = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
    beside.parent.mkdir()
    import importlib._bootstrap_external as loaders

    stat = path.stat()
    beside.write_bytes(loaders._code_to_timestamp_pyc(bytecode, stat.st_mtime, stat.st_size))
    assert loss(cache.load(path)) == 7.0


def test_the_usual_recipe_works_in_every_process(tmp_path):
    path = tmp_path / "handed.py"
    path.write_text(small())
    code = (
        "import importlib.util as u, numpy as np, sys\n"
        f"spec = u.spec_from_file_location('handed', {str(path)!r})\n"
        "for _ in range(2):\n"
        "    module = u.module_from_spec(spec)\n"
        "    spec.loader.exec_module(module)\n"
        "print(module.loss(2.0, np.array([3.0])))"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stdout == "7.0\n", done.stderr


def test_the_digest_in_the_name_is_checked(home):
    kernel = cache.store(KEY, "small", small())
    path = Path(kernel.__file__)
    path.write_text(small(5.0))  # another kernel, its own seal intact
    assert cache.lookup(KEY) is None
    assert loss(cache.store(KEY, "small", small())) == 7.0


def test_a_new_cache_is_for_its_owner_alone(home):
    before = os.umask(0)
    try:
        cache.store(KEY, "small", small())
    finally:
        os.umask(before)
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    assert len(folders) == 4
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


@pytest.mark.parametrize(
    ("folder", "mode"),
    [("", 0o770), ("kernels", 0o707), ("requests", 0o777), ("kernels/__pycache__", 0o722)],
)
def test_a_cache_that_others_can_write_to_is_not_used(home, folder, mode):
    cache.store(KEY, "small", small())
    (home / folder).chmod(mode)
    with pytest.warns(cache.CacheWarning, match="written by others"):
        assert cache.lookup(KEY) is None
    assert cache.directory() != home


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_a_cache_of_somebody_else_is_not_used(home):
    cache.store(KEY, "small", small())
    os.chown(home, 65534, 65534)
    with pytest.warns(cache.CacheWarning, match="somebody else"):
        assert cache.lookup(KEY) is None


@pytest.mark.parametrize("part", ["kernels/*.py", "requests/*"])
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_can_write_to_is_made_again(part, mode, home):
    cache.store(KEY, "small", small())
    (path,) = home.glob(part)
    path.chmod(mode)
    assert cache.lookup(KEY) is None
    assert loss(cache.store(KEY, "small", small())) == 7.0
    assert path.stat().st_mode & 0o777 == 0o600 and cache.lookup(KEY) is not None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
@pytest.mark.parametrize("part", ["kernels/*.py", "requests/*", "derived/*"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_of_somebody_else_is_not_read(part, linked, home, tmp_path):
    cache.store(KEY, "small", small())
    cache.keep(KEY, [1])
    (path,) = home.glob(part)
    if linked:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    os.chown(path, 65534, 65534)
    assert (cache.lookup(KEY) is None) != (cache.recall(KEY) is None)


@pytest.mark.few(3, 4)
@pytest.mark.parametrize("content", ["", "{", "7", "[1]", '{"code": 1, "certificate": "{}"}'])
def test_nonsense_that_is_kept_is_no_certificate(content, home):
    """With the key and the seal that belong there."""
    pytest.importorskip("flint")
    mechanism = mechc.load("randomized_response")
    mechanism.verify()
    (path,) = (p for p in (home / "derived").iterdir() if "certificate" in p.read_text())
    path.write_text(seal(f"{path.name} {content}\n"))
    again = mechanism.verify()
    assert again.ok and not again.kept


def test_a_text_outlives_its_file(home):
    kernel = cache.store(KEY, "small", small())
    cache.clear()
    assert build.source(kernel) == small()


def test_one_cache_by_any_spelling(home, tmp_path, monkeypatch):
    kernel = cache.store(KEY, "small", small())
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(tmp_path)
    for spelled in (f"{home}/", "cache", "./cache/../cache", str(tmp_path / "link"), "link/"):
        monkeypatch.setenv(cache.VARIABLE, spelled)
        assert cache.lookup(KEY) is kernel, spelled


def test_machine_code_elsewhere_is_sealed_too(home, tmp_path, monkeypatch):
    """As where numba is told to keep it: numba would run what was edited."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    assert loss(cache.store(KEY, "small", small(4.321))) == 10.321
    fresh = tmp_path / "fresh"
    monkeypatch.setenv(cache.VARIABLE, str(fresh))
    code = (
        "from mechc.kernel import cache; import numpy as np;"
        f"cache.store({KEY!r}, 'small', {small(4.321)!r}).loss(2.0, np.array([3.0]))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    codes = [*(tmp_path / "numba").rglob("*.nbc")]
    assert codes and not [*fresh.rglob("*.nbc")]
    right, wrong = (np.float64(v).tobytes() for v in (4.321, 5.0))
    for path in codes:
        assert right in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(right, wrong))
    assert answer_of_a_new_process(KEY) == 10.321


PACKAGE = Path(mechc.__file__).parent


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy") / "mechc"
    return shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize(
    ("room", "matters"),
    [
        ("calculus/transform", True), ("calculus", True), ("kernel/lower", True),
        ("kernel/passes", True), ("declare", True), ("calculus/cases", True), ("symbolic", True),
        ("calculus/claims", True), ("kernel/prelude", True), ("adjacency", True),
        ("cli", False), ("accountants", False), ("report", False), ("verify", False),
        ("loss", False), ("individual", False), ("composition", False), ("reductions", False),
    ],
)  # fmt: skip
def test_the_cache_key_covers_what_can_change_a_kernel(room, matters, package):
    before = cache.text_digest(cache.COMPILER, package)
    place = package / room
    for path in place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]:
        original = path.read_text()
        path.write_text(f"{original}\n# edited\n")
        assert (cache.text_digest(cache.COMPILER, package) != before) == matters, path
        path.write_text(original)
        break


def test_words_and_claims_are_part_of_the_request():
    made = additive("m", **NOISE)
    other = [
        replace(made, about="other"), replace(made, refs=("other",)), replace(made, name="other"),
        replace(made, construction=None),
    ]  # fmt: skip
    keys = {build.key(one, ()) for one in (made, *other)}
    assert len(keys) == 5
    assert build.key(replace(made), ()) in keys


def where_nothing_is_kept(tmp_path, code):
    """Words that a process prints whose cache others can write to."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    about = {**os.environ, cache.VARIABLE: str(tmp_path / "shared"), "TMPDIR": str(tmp_path)}
    code = f"from mechc.kernel import cache\n{code}"
    done = subprocess.run([sys.executable, "-c", code], env=about, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize("forked", [False, True])
def test_a_temporary_directory_ends_with_its_process(tmp_path, forked):
    code = "def tell(): print(cache.directory(), cache.is_temporary(), flush=True)\n"
    code += (
        "from multiprocessing import get_context as get\n"
        "one = get('fork').Process(target=tell); one.start(); one.join()"
        if forked else "tell()"
    )  # fmt: skip
    where, temporary = where_nothing_is_kept(tmp_path, code)
    assert temporary == "True" and Path(where).parent == tmp_path and not Path(where).exists()


def test_a_temporary_directory_that_somebody_else_took_is_left(tmp_path):
    code = "a = cache.directory(); a.rmdir(); a.mkdir(); a.chmod(0o777)\n"
    code += "print(a, cache.directory())"
    taken, own = where_nothing_is_kept(tmp_path, code)
    assert taken != own and Path(own).parent == tmp_path and not Path(own).exists()
