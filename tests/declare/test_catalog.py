"""Finding and loading mechanism files."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import textwrap

import pytest
from sympy import Rational

from mechc.declare import catalog, lists, mechanism
from mechc.declare.catalog import available, find, load_declaration
from mechc.declare.transforms import OfLength
from mechc.errors import DeclarationError
from mechc.kernel import build

ONE = """
from sympy import exp
from mechc.declare import additive, positive, real

x, sensitivity = real("x"), positive("sensitivity", default=1)
{name} = additive({name!r}, noise=exp(-x**2) / 2, variable=x, sensitivity=sensitivity,
                  parameters=(sensitivity,))
"""


def _write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_built_in_names_are_found_and_load_under_their_names():
    assert {"gaussian", "laplace", "randomized_response"} <= set(available())
    for name in available():
        file = find(name)
        assert load_declaration(file).name == name
        assert file.text_digest == hashlib.sha256(file.path.read_bytes()).hexdigest()


def test_a_path_is_loaded(tmp_path):
    path = _write(tmp_path, "mine.py", ONE.format(name="mine"))
    assert load_declaration(find(path)).name == "mine"
    assert load_declaration(find(str(path))).name == "mine"


def test_the_search_path_wins_over_the_built_ins(tmp_path, monkeypatch):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    _write(first, "laplace.py", ONE.format(name="laplace"))
    _write(second, "laplace.py", "")
    _write(second, "own.py", ONE.format(name="own"))
    _write(second, "_helper.py", "")
    monkeypatch.setenv("MECHC_PATH", os.pathsep.join([str(first), "", str(second)]))
    assert find("laplace").path == (first / "laplace.py").resolve()
    assert "own" in available()
    assert "_helper" not in available()


def test_entry_points_are_found_without_importing_them(tmp_path, monkeypatch):
    (tmp_path / "third_party").mkdir()
    _write(tmp_path / "third_party", "__init__.py", "")
    _write(tmp_path / "third_party", "noise.py", ONE.format(name="noise"))
    monkeypatch.syspath_prepend(str(tmp_path))
    point = importlib.metadata.EntryPoint("noise", "third_party.noise", catalog.ENTRY_POINTS)
    missing = importlib.metadata.EntryPoint("gone", "no_such_package.x", catalog.ENTRY_POINTS)
    monkeypatch.setattr(catalog.metadata, "entry_points", lambda group: [missing, point])
    assert load_declaration(find("noise")).name == "noise"
    assert "third_party.noise" not in sys.modules
    assert "gone" not in available()


def test_an_unknown_name_is_answered_by_the_one_meant_or_by_all():
    with pytest.raises(DeclarationError, match=r"'gausian'; did you mean gaussian\? \(mechc list"):
        find("gausian")
    with pytest.raises(DeclarationError, match=r"there are .*cauchy.*gaussian"):
        find("zzz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DeclarationError, match=r"absent\.py: cannot be read"):
        find(tmp_path / "absent.py")
    with pytest.raises(DeclarationError, match="cannot be read"):
        find(str(tmp_path) + os.sep)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", r"bad\.py, line 1: .*never closed"),
        ("\n\nx = 1 +* 2\n", r"bad\.py, line 3: invalid syntax"),
        ("\nraise KeyError('no')\n", r"bad\.py, line 2: KeyError: 'no'"),
        ("import no_such_module\n", r"bad\.py, line 1: ModuleNotFoundError"),
        ("\0", r"bad\.py"),
        ("x = 1\n", r"bad\.py: declares no mechanism"),
        ("from mechc.declare import positive\n\ns = positive('s', default=-1)\n",
         r"bad\.py, line 3: s: default=-1 is not"),
        ("def f():\n    return 1 / 0\n\nf()\n", r"bad\.py, line 2: ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_declare_is_refused_with_its_line(tmp_path, text, message):
    path = _write(tmp_path, "bad.py", text)
    with pytest.raises(DeclarationError, match=message):
        load_declaration(find(path))


def test_of_several_declarations_the_one_named_like_the_file_is_taken(tmp_path):
    both = ONE.format(name="first") + ONE.format(name="second")
    assert load_declaration(find(_write(tmp_path, "second.py", both))).name == "second"
    with pytest.raises(DeclarationError, match=r"several mechanisms \(first, second\)"):
        load_declaration(find(_write(tmp_path, "third.py", both)))


def test_files_of_one_text_and_two_names_have_a_kernel_each(tmp_path):
    both = ONE.format(name="first") + ONE.format(name="second")
    first, second = (find(_write(tmp_path, f"{name}.py", both)) for name in ("first", "second"))
    assert build.key(first, ()) != build.key(second, ())
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "second.py").symlink_to(first.path)
    assert load_declaration(find(tmp_path / "link" / "second.py")).name == "second"


def test_a_text_that_changes_before_it_is_compiled_is_refused(tmp_path):
    """Its kernel would be kept, and found again, as that of the text before."""
    file = find(_write(tmp_path, "mine.py", ONE.format(name="mine")))
    _write(tmp_path, "mine.py", ONE.format(name="mine").replace("/ 2", "/ 3"))
    with pytest.raises(DeclarationError, match="changed since it was found"):
        load_declaration(file)


@pytest.mark.parametrize(("share", "same"), [(6, True), (7, False)])
def test_what_is_built_for_another_length_is_part_of_the_key(share, same):
    def listed(share):
        @lists(length=2)
        def made(length):
            masses = [share, 9 - share, 1] if length == 3 else [6, 4]
            rows = [
                (Rational(m, 10), Rational(n, 10))
                for m, n in zip(masses, masses[::-1], strict=True)
            ]
            return mechanism("made", outcomes=rows)

        return made

    keys = [build.key(listed(s), (OfLength(3),)) for s in (6, share)]
    assert (keys[0] == keys[1]) is same
    assert build.key(listed(6), ()) == build.key(listed(share), ())


def test_two_names_for_one_declaration_are_one(tmp_path):
    text = ONE.format(name="mine") + "\nalias = mine\n"
    assert load_declaration(find(_write(tmp_path, "other.py", text))).name == "mine"


def test_finding_does_not_import_sympy():
    script = ("import sys; from mechc.declare import catalog; catalog.available();"
              "catalog.find('laplace');"
              "sys.exit('sympy' in sys.modules)")  # fmt: skip
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
