"""Dask runs: the numbers of one machine, whatever is killed on the way."""

import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import mechc
from mechc.cli.commands import app
from mechc.errors import DeclarationError, UnsupportedError
from mechc.individual import IndividualAccountant, StateError

pytest.importorskip("distributed")
pytest.importorskip("zarr")
psutil = pytest.importorskip("psutil")

from mechc.individual.distributed import Results, Run, account  # noqa: E402

PEOPLE, CHUNK = 60, 12
ASKED = {"parameter": "sigma", "span": (2.0, 50.0), "delta": 1e-6, "buckets": 8, "rtol": 1e-3}

# the run that is killed: the same call in a process of its own
SCRIPT = """
import sys
import tests_of_killed_runs
if __name__ == "__main__":
    getattr(tests_of_killed_runs, sys.argv[3])(sys.argv[1], workers=int(sys.argv[2]))
"""
# people of the run that is started by hand, and those whom a worker has at a time
CROWD, PART = int(float(os.environ.get("MECHC_PEOPLE", "1e6"))), 250_000


def steps():
    rng = np.random.default_rng(5)
    return np.exp(rng.uniform(np.log(3), np.log(45), (PEOPLE, 6)))


def pieces(given=None):
    import dask.array as da

    if isinstance(given, Path):
        return given
    return da.from_array(steps() if given is None else given, (CHUNK, -1))


def account_for(output, given=None, **options):
    counts, steps = [10] * 6, pieces(given)
    return account(
        mechc.load("gaussian"), steps, output, counts=counts, progress=False, **ASKED, **options
    )


def ratios_of_many(block_info=None):
    """Draw the 40 ratios of a chunk of people around a ratio of each."""
    (first, last), (_, steps) = block_info[None]["array-location"]
    rng = np.random.default_rng(first)
    centre = np.exp(rng.uniform(np.log(5.0), np.log(100.0), last - first))
    drift = np.exp(0.3 * rng.standard_normal((last - first, steps)))
    return np.clip(centre[:, None] * drift, 4.0, 200.0)


def account_for_many(output, only=None, **options):
    """Account for CROWD people with 2000 steps each, or for some chunks of them."""
    import dask.array as da

    sizes = [min(PART, CROWD - i) for i in range(0, CROWD, PART)]
    drawn = da.map_blocks(ratios_of_many, chunks=(tuple(sizes), (40,)), dtype="f8")
    mechanism = mechc.poisson(mechc.load("gaussian"), sampling_rate=0.01)
    asked = {"parameter": "sigma", "span": (4.0, 200.0), "delta": 1e-6, "journal": 0}
    if only is None:
        return account(
            mechanism, drawn, output, counts=[50] * 40, progress=False, **asked, **options
        )
    run = Run.open(mechanism, drawn, output, counts=[50] * 40, **asked)
    for index in only:
        run.chunk(index)
    return run.results


def run_of(output, **options):
    return Run.open(mechc.load("gaussian"), pieces(), output, counts=[10] * 6, **ASKED, **options)


def numbers(results):
    return np.concatenate([results.read(i) for i in range(results.chunks)], axis=1)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return account_for(tmp_path_factory.mktemp("alone") / "a.zarr", workers=0)


@pytest.fixture(scope="module")
def reference(alone):
    return numbers(alone)


def test_chunks_are_those_of_an_accountant(reference):
    acc = IndividualAccountant(
        mechc.load("gaussian"), parameter="sigma", people=CHUNK, span=(2, 50), buckets=8, rtol=1e-3
    )
    for row in steps()[CHUNK : 2 * CHUNK].T:
        acc.step(row, count=10)
    bound = acc.epsilon(1e-6)
    found = reference[:, CHUNK : 2 * CHUNK]
    assert np.array_equal(found, [bound.lower, bound.estimate, bound.upper])


def test_files_of_both_formats_hold_the_same(alone, reference, tmp_path):
    pytest.importorskip("pyarrow")
    import zarr

    group = zarr.open_group(alone.path, mode="r")
    assert np.array_equal(group["upper"][:], reference[2])
    results = Results.open(tmp_path / "b.parquet", PEOPLE, CHUNK, {})
    for i in range(results.chunks):
        results.write(i, reference[:, results.rows(i)])
    assert np.array_equal(numbers(results), reference)
    part = tmp_path / "b.parquet" / "part-000002.parquet"
    part.write_bytes(part.read_bytes()[:-9])
    assert [i for i in range(results.chunks) if not results.is_done(i)] == [2]


def test_damaged_and_missing_chunks_are_computed_again(alone, reference, tmp_path):
    path = tmp_path / "c.zarr"
    shutil.copytree(alone.path, path)
    shutil.copytree(f"{alone.path}.progress", f"{path}.progress")
    damaged = next((path / "upper").rglob("c/3"))
    damaged.write_bytes(damaged.read_bytes()[:-3])
    (Path(f"{path}.progress") / "000001").unlink()
    results = Results(str(path), PEOPLE, CHUNK)
    assert [i for i in range(results.chunks) if not results.is_done(i)] == [1, 3]
    assert np.array_equal(numbers(account_for(path, workers=0)), reference)
    shutil.rmtree(path)
    assert np.array_equal(numbers(account_for(path, workers=0)), reference)


def test_other_steps_are_not_continued(alone, tmp_path):
    path = tmp_path / "c.zarr"
    shutil.copytree(alone.path, path)
    shutil.copytree(f"{alone.path}.progress", f"{path}.progress")
    changed = steps()
    changed[3 * CHUNK, 1] *= 1.01
    with pytest.raises(StateError, match="steps of chunk 3"):
        account_for(path, given=changed, workers=0)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The same steps as rows, in one file a chunk; people have names, steps come in any order."""
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    folder, rng = tmp_path_factory.mktemp("rows") / "steps", np.random.default_rng(0)
    folder.mkdir()
    for i in range(PEOPLE // CHUNK):
        person, step = np.divmod(rng.permutation(CHUNK * 6), 6)
        values = steps()[CHUNK * i + person, step]
        names = np.array([f"p{CHUNK * i + p:03d}" for p in person])
        parquet.write_table(
            arrow.table({"person": names, "step": step, "value": values}), folder / f"{i}.parquet"
        )
    return folder


def test_rows_keep_their_names_and_an_executor_finds_the_same_numbers(rows, reference, tmp_path):
    from pyarrow import parquet

    with ThreadPoolExecutor(2) as pool:
        found = account_for(tmp_path / "r.parquet", given=rows, executor=pool)
        assert np.array_equal(numbers(found), reference)
        account_for(tmp_path / "r.parquet", given=rows, executor=pool)  # nothing is left to do
    names = parquet.read_table(found.path)["person"].to_pylist()
    assert names == [f"p{i:03d}" for i in range(PEOPLE)]
    (rows.parent / "twice.parquet").mkdir()
    for copy in "ab":
        shutil.copy(rows / "0.parquet", rows.parent / "twice.parquet" / f"{copy}.parquet")
    with pytest.raises(DeclarationError, match="same person"):
        account_for(tmp_path / "t.parquet", given=rows.parent / "twice.parquet", workers=0)


def test_results_on_another_file_system(reference, tmp_path):
    pytest.importorskip("pyarrow")
    fsspec = pytest.importorskip("fsspec")
    place = f"memory://{tmp_path.name}/m.parquet"
    found = account_for(place, workers=0, identifiers=np.arange(PEOPLE))
    assert np.array_equal(numbers(found), reference)
    system = fsspec.filesystem("memory")
    part = system.ls(found.path, detail=False)[0]
    system.pipe_file(part, system.cat_file(part)[:-9])  # half of an upload
    assert not found.is_done(0) and found.is_done(1)
    account_for(place, workers=0, identifiers=np.arange(PEOPLE))
    assert np.array_equal(numbers(found), reference)
    changed = steps()
    changed[3 * CHUNK, 1] *= 1.01
    with pytest.raises(StateError, match="steps of chunk 3"):
        account_for(place, given=changed, workers=0, identifiers=np.arange(PEOPLE))
    with pytest.raises(DeclarationError, match="parquet"):
        account_for(place.replace("parquet", "zarr"), workers=0)
    with pytest.raises(UnsupportedError, match="nowhere"):
        account_for("nowhere://m.parquet", workers=0)


def test_one_chunk_at_a_time_is_the_same_run(reference, tmp_path):
    pytest.importorskip("pyarrow")
    made = run_of(tmp_path / "o.parquet", identifiers=np.arange(PEOPLE) + 7)
    made.chunk(2)
    assert [made.results.is_done(i) for i in range(5)] == [False, False, True, False, False]
    assert np.array_equal(made.results.read(2), reference[:, made.results.rows(2)])
    with pytest.raises(DeclarationError, match="index"):
        made.chunk(5)
    again = {**ASKED, "buckets": np.int64(8), "rtol": np.float64(1e-3)}  # in any type of numbers
    about = mechc.load("gaussian"), pieces(), tmp_path / "o.parquet"
    assert Run.open(*about, counts=[10] * 6, **again).results.is_done(2)
    with pytest.raises(DeclarationError, match="identifiers"):
        run_of(tmp_path / "w.parquet", identifiers=np.arange(3))


def test_a_scheduler_of_jobs_runs_chunks_by_number(rows, reference, tmp_path, capsys):
    run, output = tmp_path / "run.toml", tmp_path / "j.parquet"
    run.write_text(
        f'mechanism = "gaussian"\nparameter = "sigma"\nspan = [2.0, 50.0]\ndelta = 1e-6\n'
        f'buckets = 8\nrtol = 1e-3\ncounts = {[10] * 6}\nsteps = "{rows}"\noutput = "{output}"\n'
    )
    invoke = CliRunner().invoke
    assert invoke(app, ["individual", "chunk", str(run)]).output == "5\n"
    told = json.loads(invoke(app, ["individual", "chunk", str(run), "--json"]).output)
    assert (told["adjacency"], told["claim"]["theorem"]) == ("any", "T1")
    assert invoke(app, ["individual", "chunk", str(run), "4"]).exit_code == 0
    found = Run.read(run).results
    assert np.array_equal(found.read(4), reference[:, 4 * CHUNK :])
    assert invoke(app, ["individual", "chunk", str(run), "5"]).exit_code == 2
    run.write_text('mechanism = "gaussian"\nclip = 1.0\n')
    with pytest.raises(DeclarationError, match="'clip'"):
        Run.read(run)


@pytest.mark.parametrize(
    "changed", [{"delta": 1e-5}, {"span": (2.0, 60.0)}, {"buckets": 16}, {"rtol": 1e-2}]
)
def test_another_run_is_not_continued(tmp_path, changed):
    made = Results.open(tmp_path / "d.zarr", PEOPLE, CHUNK, ASKED)
    made.write(0, np.ones((3, CHUNK)))
    with pytest.raises(StateError, match=f"another run: {next(iter(changed))}"):
        Results.open(tmp_path / "d.zarr", PEOPLE, CHUNK, ASKED | changed)
    assert made.is_done(0)
    with pytest.raises(StateError, match="another run: people"):
        Results.open(tmp_path / "d.zarr", PEOPLE + 1, CHUNK, ASKED)
    (tmp_path / "e.zarr").mkdir()
    with pytest.raises(StateError, match="not a run"):
        Results.open(tmp_path / "e.zarr", PEOPLE, CHUNK, ASKED)


def test_a_run_that_drops_a_word_is_not_continued(tmp_path):
    given = mechc.load("gaussian"), np.full((3, 2), 5.0), tmp_path / "d.zarr"
    Run.open(*given, **ASKED)
    with pytest.raises(StateError, match=r"another run: rtol=0\.001, expected None"):
        Run.open(*given, **{name: value for name, value in ASKED.items() if name != "rtol"})


@pytest.mark.parametrize(
    "given, options, message",
    [
        (str(Path(__file__).parent), {}, "a Zarr array, or a folder of"),
        (np.ones(3), {}, "steps has shape"),
        (np.array([["a"]]), {}, "dtype"),
        (np.full((3, 2), 5.0), {"counts": [1]}, "counts"),
        (np.full((3, 2), 5.0), {"counts": [1, 0]}, "counts"),
        (np.full((3, 2), 5.0), {"counts": [1, 1.5]}, "counts=1.5 is not an integer"),
        (np.full((3, 2), 5.0), {"counts": True}, "counts"),
        (np.full((3, 2), 5.0), {"delta": 0.0}, "delta"),
        (np.full((3, 2), 5.0), {"sampling_rate": 0.1}, "unknown .*expected rtol, buckets"),
        (np.full((3, 2), 1.0), {}, "outside the span"),
        (np.full((3, 2), np.nan), {}, "sigma"),
        (np.full((3, 2), 5.0), {"workers": -1}, "workers=-1"),
        (np.full((3, 2), 5.0), {"executor": 5}, "executor=5"),
        (np.full((3, 2), 5.0), {"progress": 5}, "progress=5"),
        (np.full((3, 2), 5.0), {"address": "nowhere"}, "address='nowhere'"),
    ],
)
def test_bad_input_is_refused(tmp_path, given, options, message):
    options = {"workers": 0, "progress": False, **ASKED, **options}
    with pytest.raises(DeclarationError, match=message):
        account(mechc.load("gaussian"), given, tmp_path / "f.zarr", **options)
    with pytest.raises(DeclarationError, match="expected"):
        Results.open(tmp_path / "f.csv", 3, 1, {})


@pytest.mark.parametrize(
    "column, values",
    [("step", [0.0, 1.5]), ("step", [0.0, math.nan]), ("step", [0, None]), ("person", ["a", None]),
     ("person", [1.0, math.nan])],
)  # fmt: skip
def test_rows_without_a_place_are_refused(tmp_path, column, values):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    table = {"person": ["a", "b"], "step": [0, 1], "value": [5.0, 6.0]} | {column: values}
    (tmp_path / "rows").mkdir()
    parquet.write_table(arrow.table(table), tmp_path / "rows" / "0.parquet")
    run = Run.open(mechc.load("gaussian"), tmp_path / "rows", tmp_path / "g.parquet", **ASKED)
    with pytest.raises(DeclarationError, match="without person"):
        run.chunk(0)


@pytest.mark.parametrize(
    "column, values, message",
    [
        ("step", ["0", "1"], "rows person, step, value"),
        ("step", [0, 10**9], "step 0 to 1000000000"),
        ("value", ["5", "6"], "value has dtype object"),
        ("", [], "rows person, step, value"),
    ],
)
def test_files_that_hold_no_rows_are_refused(tmp_path, column, values, message):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    table = {"person": ["a", "b"], "step": [0, 1], "value": [5.0, 6.0]} | {column: values}
    if column:
        parquet.write_table(arrow.table(table), tmp_path / "0.parquet")
    else:
        (tmp_path / "0.parquet").write_text("junk")
    with pytest.raises(DeclarationError, match=message):
        Run.open(mechc.load("gaussian"), tmp_path, tmp_path / "g.parquet", **ASKED).chunk(0)


def test_damaged_notes_and_no_name_are_errors_of_our_own(tmp_path):
    (tmp_path / "d.parquet.progress").mkdir()
    (tmp_path / "d.parquet.progress" / "run.json").write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        Results.open(tmp_path / "d.parquet", 3, 1, {})
    with pytest.raises(StateError, match="cannot write"):
        Results.open(f"{tmp_path}/a\0b.parquet", 3, 1, {})


@pytest.mark.parametrize(
    "line", ["output = 3", "bound = 3", 'counts = "x"', "rtol = 2026-01-01", 'buckets = "x"']
)
def test_words_of_another_kind_are_refused(tmp_path, line):
    words = {"mechanism": '"gaussian"', "parameter": '"sigma"', "span": "[2.0, 50.0]"}
    words |= {"delta": "1e-6", "steps": f'"{tmp_path / "s.zarr"}"', "output": '"g.zarr"'}
    words |= [line.split(" = ")]
    pytest.importorskip("zarr").save(str(tmp_path / "s.zarr"), np.full((3, 2), 5.0))
    (tmp_path / "run.toml").write_text("\n".join(f"{k} = {v}" for k, v in words.items()))
    with pytest.raises(DeclarationError, match=line.partition(" ")[0]):
        Run.read(tmp_path / "run.toml")


def kill_once(launched, draw, longest):
    """Kill a worker or the coordinating process at a random moment; say which.

    Only the launched process and its descendants are considered.
    """
    victim = draw.choice(["coordinator", "worker"])
    while victim == "worker" and not workers_of(launched) and launched.poll() is None:
        time.sleep(0.05)
    time.sleep(draw.uniform(0.0, longest))
    if victim == "coordinator" and launched.poll() is None:
        launched.send_signal(signal.SIGKILL)
        launched.wait()
        return victim
    workers = workers_of(launched)
    if not workers:
        return "nothing"
    draw.choice(workers).kill()
    return "worker"


def workers_of(launched):
    if launched.poll() is not None:
        return []
    return [p for p in psutil.Process(launched.pid).children(recursive=True) if is_worker(p)]


def is_worker(process):
    try:
        return any("spawn_main" in word for word in process.cmdline())
    except psutil.Error:
        return False


def launch(folder, output, workers, work):
    module = folder / "tests_of_killed_runs.py"
    module.write_text(Path(__file__).read_text("utf-8"), "utf-8")
    script = folder / "killed_run.py"
    script.write_text(SCRIPT, "utf-8")
    command = [sys.executable, str(script), str(output), str(workers), work]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))


def killed_run(folder, seed, kills, longest=6.0, workers=2, work="account_for"):
    """Start a run, kill something `kills` times, start again as needed; return its results."""
    draw, output = random.Random(seed), folder / "k.zarr"
    happened = []
    for _ in range(kills + 2):
        process = launch(folder, output, workers, work)
        while len(happened) < kills:
            happened.append(kill_once(process, draw, longest))
            if process.poll() is not None:
                break
        if process.wait() == 0:
            break
    else:
        raise AssertionError((folder / "log").read_text()[-3000:])
    facts = json.loads(Path(f"{output}.progress", "run.json").read_text())
    about = facts["people"], facts["chunk"], {"delta": facts["delta"]}
    results = Results.open(output, *about)
    assert all(results.is_done(i) for i in range(results.chunks))
    print(seed, happened)
    return results


def test_a_killed_run_goes_on_where_it_was(tmp_path, reference):
    results = killed_run(tmp_path, seed=2, kills=1, longest=1.0, workers=1)
    assert np.array_equal(numbers(results), reference)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_fifty_killed_runs_lose_nothing(tmp_path, reference, seed):
    results = killed_run(tmp_path, seed=100 + seed, kills=1)
    assert np.array_equal(numbers(results), reference)


@pytest.mark.slow
def test_many_people_on_two_workers_of_which_some_are_killed(tmp_path):
    """By hand: MECHC_PEOPLE=1e7 pytest -m slow -s tests/individual/test_distributed.py -k many."""
    start = time.perf_counter()
    longest = 6e-6 * CROWD
    results = killed_run(tmp_path, 7, kills=4, longest=longest, work="account_for_many")
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    widest = 0.0
    for i in range(results.chunks):
        lower, _, upper = results.read(i)
        assert lower.size == results.rows(i).stop - results.rows(i).start and (lower > 0.0).all()
        widest = max(widest, float((1.0 - lower / upper).max()))
    print(
        f"{CROWD} people: {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time"
        f" besides that of killed processes, {used.ru_maxrss / 2**10:.0f} MiB, widest {widest:.1e}"
    )
    assert widest <= 1.2e-4
    some = {0, results.chunks // 2, results.chunks - 1}
    alone = account_for_many(tmp_path / "alone.zarr", only=some)
    for i in some:
        assert np.array_equal(alone.read(i), results.read(i))


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler and two workers in processes of their own; yields its address and the workers."""
    described, command = tmp_path / "scheduler.json", [sys.executable, "-m"]
    where = ["--scheduler-file", str(described), "--no-dashboard"]
    worker = [*command, "distributed.cli.dask_worker", *where, "--nthreads", "1", "--no-nanny"]
    lead = [*command, "distributed.cli.dask_scheduler", *where, "--host", "127.0.0.1:0"]
    with open(tmp_path / "cluster.log", "wb") as log:
        started = [subprocess.Popen(c, stdout=log, stderr=log) for c in (lead, worker, worker)]
        try:
            for _ in range(600):
                if described.exists() and described.stat().st_size:
                    break
                time.sleep(0.1)
            yield json.loads(described.read_text())["address"], started[1:]
        finally:
            for process in started:
                process.kill()
                process.wait()


@pytest.mark.slow
def test_an_existing_scheduler_is_used_and_survives_a_lost_worker(scheduler, tmp_path, reference):
    address, workers = scheduler
    output = tmp_path / "s.zarr"
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(account_for, output, address=address)
        progress = Path(f"{output}.progress")
        while not run.done() and not list(progress.glob("0*")):
            time.sleep(0.02)
        assert len(list(progress.glob("0*"))) < -(-PEOPLE // CHUNK)
        workers[0].kill()
        results = run.result(timeout=300)
    assert np.array_equal(numbers(results), reference)
    for lost in ("000000", "000003"):
        (progress / lost).unlink()
    again = account_for(output, address=address)
    assert np.array_equal(numbers(again), reference)
    assert workers[1].poll() is None  # the cluster is not ours to close
