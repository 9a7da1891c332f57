"""Setuptools as the build backend, with tests, documentation and CI in source distributions."""

from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks of a build backend

MANIFEST = "graft tests\ngraft docs\ngraft mechanisms\ngraft .ci\nglobal-exclude *.py[cod]\n"


def build_sdist(sdist_directory, config_settings=None):
    """Return the name of the source distribution that was made, see PEP 517."""
    manifest = Path("MANIFEST.in")
    manifest.write_text(MANIFEST, encoding="utf-8")
    try:
        return build_meta.build_sdist(sdist_directory, config_settings)
    finally:
        manifest.unlink()
