"""What `import mechc` offers: the public names, each there on first use, and no others."""

import subprocess
import sys
import types

import pytest

import mechc


def test_the_directory_is_the_public_names():
    shown = set(dir(mechc))
    assert set(mechc.__all__) | {"open", "__version__"} <= shown
    assert not {name for name in shown if name.startswith("_")} - {"__version__"}
    assert not shown & {"Any", "TYPE_CHECKING", "annotations", "import_module", "composition"}
    for name in shown:
        value = getattr(mechc, name)
        assert callable(value) or isinstance(value, (types.ModuleType, str))


def test_every_error_of_ours_is_caught_by_a_name_of_the_package():
    with pytest.raises(mechc.MechcError):
        mechc.load("gaussian")(sigma=-1.0)


def test_adaptors_and_words_are_listed_and_reached():
    code = "import mechc; print(mechc.integrations.opacus.MechcAccountant().mechanism())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "mechc\n"
    assert dir(mechc.integrations) == ["dp_accounting", "opacus"]
    assert "from_event" in dir(mechc.integrations.dp_accounting)
    assert dir(mechc.declare) == sorted(mechc.declare.__all__)


def test_an_interrupted_import_of_numba_is_whole():
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background\n"
        "class Press:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numba.core': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Press())\n"
        "try: import mechc.numeric.machine_code\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "from mechc.numeric.machine_code import njit\n"
        "print(njit(lambda x: x + 1)(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n2\n"


def test_modules_are_reached_without_an_import():
    code = (
        "import mechc; print(mechc.parse.declaration_from_text, mechc.reductions.matrix_mechanism)"
    )
    code += "\ntry: mechc.nothing\nexcept AttributeError as error: print(error)"
    code += "\nfrom mechc import *\nassert open.__module__ != 'mechc.composition.run_file'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no attribute 'nothing'" in done.stdout
