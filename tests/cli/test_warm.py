"""What is compiled once is said on a terminal, and can be compiled ahead."""

import io
import json
import multiprocessing
import sys
import time
from concurrent.futures.process import BrokenProcessPool

import pytest
from typer.testing import CliRunner

from mechc.cli import progress
from mechc.cli.commands import app
from mechc.kernel import cache
from mechc.numeric import jit, telling


class Terminal(io.StringIO):
    def isatty(self):
        return True


def plus(constant):
    return lambda x: x + constant


def test_a_terminal_is_told_once_and_a_pipe_never(monkeypatch):
    for stream, lines in ((Terminal(), 1), (io.StringIO(), 0)):
        monkeypatch.setattr(sys, "stderr", stream)
        jit.tell_of_compiling.cache_clear()
        for constant in (2.0, 3.0):
            made = jit.compiled("float64(float64)", cache=False)(plus(constant))
            assert made(1.0) == 1.0 + constant
        assert stream.getvalue().count("\n") == lines
    jit.tell_of_compiling.cache_clear()


def test_warm_fails_where_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(cache, "_fallback", [])
    monkeypatch.setattr(progress, "compiling_all", lambda names, console: None)
    monkeypatch.setattr(progress, "warm_up", lambda: None)
    tmp_path.chmod(0o777)
    with pytest.warns(cache.CacheWarning, match="can be written by others"):
        done = CliRunner().invoke(app, ["warm", "pure_dp"])
    assert done.exit_code == 1 and "not kept" in done.output


def test_warm_leaves_certificates(tmp_path, monkeypatch):
    pytest.importorskip("flint")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(progress, "warm_up", lambda: None)
    assert CliRunner().invoke(app, ["warm", "pure_dp"]).exit_code == 0
    shown = json.loads(CliRunner().invoke(app, ["verify", "pure_dp", "--json"]).output)
    assert shown["kept"] and shown["ok"]


def test_warm_refuses_what_does_not_exist_before_it_begins():
    done = CliRunner().invoke(app, ["warm", "no_such_mechanism"])
    assert done.exit_code == 2 and "no_such_mechanism" in done.output


def test_no_process_is_waited_for_at_an_interruption():
    with pytest.raises(KeyboardInterrupt), progress.processes(1) as pool:
        with progress.children():
            job = pool.submit(time.sleep, 600.0)
        raise KeyboardInterrupt
    assert job.cancelled() or isinstance(job.exception(), BrokenProcessPool)
    assert not multiprocessing.active_children()


def test_a_long_task_is_told_of_and_wiped_away(monkeypatch):
    monkeypatch.setattr(telling, "PATIENCE", 0.01)
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with telling.telling("a task") as tell:
            time.sleep(0.1)
            tell("its end")
        said = stream.getvalue()
        assert ("mechc: a task: its end" in said) == stream.isatty()
        assert not said.rpartition("\r")[2]
