"""The command line: `mechc list | show | emit | epsilon | delta | curve | compare | calibrate ...`.

What is asked for is checked, files to be written included, before anything is compiled. Errors are
one line on stderr.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

import mechc
from mechc.cli.arguments import (
    Adjacency,
    Advantage,
    AllowFiles,
    BatchCap,
    BatchSize,
    Beside,
    ClipNorm,
    Count,
    DatasetSize,
    Delta,
    DensityP,
    DensityQ,
    Direction,
    Domain,
    Epochs,
    Epsilon,
    Fpr,
    Json,
    LogDelta,
    MaybeName,
    Method,
    Name,
    NoiseMultiplier,
    Output,
    Plot,
    Poisson,
    Sampler,
    Set,
    SolveFor,
    Steps,
    Tpr,
    Variable,
    count_of,
    counts_of,
    mechanism_of,
    question,
    ranges_of,
    run_of,
    values_of,
    writable,
)
from mechc.composition.operations import under
from mechc.errors import MEANT, DeclarationError, LoweringError, MechcError, UnsupportedError

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound
    from mechc.composition.calibration import Calibration


out = Console()
err = Console(stderr=True)


EXIT_CODES = """Exit codes: 0 answered; 1 a check failed or something could not be computed, read or
written; 2 bad input; 130 interrupted."""
UsageError: Any = typer.BadParameter.__base__  # of the click that typer brings
PARAMETERS = tuple(word.replace("_", "-") for word in (*MEANT, *MEANT.values(), "sampling-rate"))


class _Group(TyperGroup):
    """The commands, with errors shown as one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn errors into exit codes."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            words = str(error.format_message()).rstrip(".")
            option = re.search(r"No such option:? '?--([\w-]+)", words)
            if option and option[1] in PARAMETERS:
                words += "; a parameter of a mechanism is given by --set NAME=VALUE"
            at = error.ctx if error.ctx is not None and error.ctx.parent is not None else None
            about = f"mechc {at.info_name}" if at else "mechc"
            _fail(ctx, f"{about}: {words}; see {about} --help", 2)
        except MechcError as error:
            bad_input = isinstance(error, (DeclarationError, UnsupportedError, LoweringError))
            _fail(ctx, f"mechc: {error}", 2 if bad_input else 1)


def _fail(ctx: Any, words: str, code: int) -> None:
    err.print(words, markup=False, highlight=False, soft_wrap=True)
    ctx.exit(code)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A mechanism compiler for differential privacy.",
    epilog=EXIT_CODES,
)


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"mechc {mechc.__version__} ({', '.join(_runs_on())})", highlight=False)
        raise typer.Exit


def _runs_on() -> list[str]:
    """Python and the libraries that answers rest on, with their versions."""
    from importlib.metadata import version
    from platform import machine, python_version, system

    libraries = [f"{name} {version(name)}" for name in ("numpy", "scipy", "numba", "sympy")]
    return [f"Python {python_version()}", *libraries, f"{system()} {machine()}"]


@app.command("list")
def list_mechanisms(
    ctx: typer.Context,
    compile_missing: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile what has no kernel yet, once.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the mechanisms that can be named, with what is known about each."""
    from mechc.cli import catalogue
    from mechc.cli.progress import compiling_all

    if compile_missing:
        compiling_all(mechc.available(), err)
    if as_json:
        _print_json(ctx, {"mechanisms": [vars(row) for row in catalogue.rows()]})
    else:
        out.print(catalogue.table())


@app.command("methods")
def list_methods(ctx: typer.Context, as_json: Json = False) -> None:
    """List the accountants with what they need, prove and cost."""
    from mechc.report import tables

    if as_json:
        _print_json(ctx, {"methods": tables.method_rows()})
    else:
        out.print(tables.methods())


@app.command()
def show(
    name: Name,
    stage: Annotated[str, typer.Option(help="explain, pair, calculus, ir or source.")] = "explain",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
) -> None:
    """Show what was derived from a declaration, at any stage of the compiler."""
    from mechc.report import stages

    mechanism = under(mechc.load(name), poisson, adjacency)
    out.print(stages.show(mechanism, stage), highlight=False)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the mechanism, and of its file.")],
) -> None:
    """Write a commented mechanism file to start from."""
    from mechc.cli import new_file

    out.print(f"wrote {new_file.write(name)}", highlight=False)


@app.command()
def emit(
    name: Name,
    output: Output,
    poisson: Poisson = None,
    adjacency: Adjacency = None,
) -> None:
    """Write the compiled kernel as a standalone Python module."""
    from mechc.cli.progress import compiling

    writable(output)
    mechanism = under(mechc.load(name), poisson, adjacency)
    compiling(mechanism, err)
    out.print(f"wrote {mechanism.emit(output)}", highlight=False)


@app.command()
def report(
    name: Name,
    output: Output,
    settings: Set = [],  # noqa: B006
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    certificate: Annotated[str, typer.Option(help="quick, full or none.")] = "quick",
) -> None:
    """Write a datasheet of a mechanism as one HTML file."""
    from mechc.cli.progress import compiling

    writable(output)
    values = values_of(settings)
    mechanism = under(mechc.load(name), poisson, adjacency, values)
    mechanism.check({**mechanism.bound, **values}, partial=True)
    compiling(mechanism, err)
    with err.status(f"datasheet of {mechanism.name}"):
        path = mechanism.report(output, certificate=certificate, **values)
    out.print(f"wrote {path}", highlight=False)


@app.command()
def epsilon(
    ctx: typer.Context,
    name: MaybeName = "",
    settings: Set = [],  # noqa: B006 - typer copies it
    delta: Delta = None,
    log_delta: LogDelta = None,
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    direction: Direction = "both",
    p: DensityP = "",
    q: DensityQ = "",
    var: Variable = "x",
    domain: Domain = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Print bounds on epsilon for a given delta."""
    if (delta is None) == (log_delta is None):
        raise DeclarationError("epsilon: give exactly one of --delta and --log-delta")
    question(method, direction, delta=delta, log_delta=log_delta)
    run = run_of(mechanism_of(name, p, q, var, domain), settings, poisson, adjacency, count)
    bound = run.epsilon(delta, log_delta=log_delta, method=method, direction=direction)
    _print_bound(_under(bound, adjacency), ctx, as_json)


@app.command()
def delta(
    ctx: typer.Context,
    name: MaybeName = "",
    settings: Set = [],  # noqa: B006 - typer copies it
    epsilon: Epsilon = None,
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    direction: Direction = "both",
    log: Annotated[bool, typer.Option("--log", help="Print log delta.")] = False,
    p: DensityP = "",
    q: DensityQ = "",
    var: Variable = "x",
    domain: Domain = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
) -> None:
    """Print bounds on delta for a given epsilon."""
    if epsilon is None:
        raise DeclarationError("delta: --epsilon is needed")
    question(method, direction, epsilon=epsilon)
    run = run_of(mechanism_of(name, p, q, var, domain), settings, poisson, adjacency, count)
    ask = run.log_delta if log else run.delta
    bound = ask(epsilon, method=method, direction=direction)
    _print_bound(_under(bound, adjacency), ctx, as_json)


@app.command()
def dpsgd(
    ctx: typer.Context,
    dataset_size: DatasetSize = None,
    batch_size: BatchSize = None,
    noise_multiplier: NoiseMultiplier = None,
    epochs: Epochs = None,
    steps: Steps = None,
    sampler: Sampler = "poisson",
    adjacency: Adjacency = None,
    clip_norm: ClipNorm = 1.0,
    batch_cap: BatchCap = None,
    delta: Delta = None,
    epsilon: Epsilon = None,
    solve_for: SolveFor = "",
    advantage: Advantage = None,
    tpr: Tpr = None,
    fpr: Fpr = None,
    beside: Beside = None,
    method: Method = "auto",
    as_json: Json = False,
) -> None:
    """Print bounds on epsilon (or delta) of a training run with DP-SGD; or solve for one word."""
    inputs: dict[str, Any] = {
        "dataset_size": dataset_size, "batch_size": batch_size, "epochs": epochs, "steps": steps,
        "noise_multiplier": noise_multiplier, "sampler": sampler, "adjacency": adjacency,
        "clip_norm": clip_norm, "batch_cap": batch_cap,
    }  # fmt: skip
    if solve_for:
        words = {name: value for name, value in inputs.items() if value is not None}
        found = mechc.calibrate(
            mechc.dpsgd,
            solve_for=solve_for,
            epsilon=epsilon,
            delta=delta,
            advantage=advantage,
            tpr=tpr,
            fpr=fpr,
            beside=None if beside is None else mechc.open(beside),
            method=method,
            parameters=words,
        )
        _print_calibration(found, adjacency, ctx, as_json)
        return
    if (delta is None) == (epsilon is None) or (advantage, tpr, fpr) != (None, None, None):
        raise DeclarationError(
            "dpsgd: give exactly one of --delta and --epsilon, or --solve-for and a target"
        )
    question(method, delta=delta, epsilon=epsilon)
    run = mechc.dpsgd(**inputs)
    run = run if beside is None else run + mechc.open(beside)
    bound = (
        run.delta(epsilon, method=method) if delta is None else run.epsilon(delta, method=method)
    )
    if not as_json:
        out.print(f"run        {run}", markup=False, highlight=False, soft_wrap=True)
    _print_bound(bound, ctx, as_json, run=repr(run))


@app.command()
def compare(
    ctx: typer.Context,
    name: Name,
    settings: Set = [],  # noqa: B006 - typer copies it
    epsilon: Epsilon = None,
    delta: Delta = None,
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Ask every method the same question: lower, estimate, upper and time."""
    from mechc.cli import comparison

    if (epsilon is None) == (delta is None):
        raise DeclarationError("compare: give exactly one of --epsilon and --delta")
    question(delta=delta, epsilon=epsilon)
    if plot is not None:
        writable(plot)
    run = run_of(mechc.load(name), settings, poisson, adjacency, count)
    what = "delta" if delta is None else "epsilon"
    with err.status("asking every method"):
        found = comparison.answers(run, epsilon=epsilon, delta=delta)
    if plot is not None:
        at = f"epsilon {epsilon:g}" if delta is None else f"delta {delta:g}"
        comparison.figure(found, what, f"{run} at {at}", plot)
    if as_json:
        _print_json(ctx, {"answers": comparison.record(found), "claim": run.claim.record(),
                          "adjacency": run.claim.adjacency, "run": repr(run)})  # fmt: skip
    else:
        out.print(comparison.table(found, what, run.claim))


@app.command()
def curve(
    ctx: typer.Context,
    name: Name,
    settings: Set = [],  # noqa: B006 - typer copies it
    delta: Annotated[float, typer.Option("--delta", "-d", help="Target delta.")] = 1e-5,
    counts: Annotated[str, typer.Option(help="Counts, such as 1,10,100 or 1:1000:10.")] = "1:11",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Print epsilon after each of several numbers of steps."""
    from mechc.report import tables

    numbers = counts_of(counts)
    question(method, delta=delta)
    if plot is not None:
        writable(plot)
    run = run_of(mechc.load(name), settings, poisson, adjacency, "1")
    bound = _under(run.epsilon_curve(delta, numbers, method=method), adjacency)
    if plot is not None:
        from mechc.report.plot import epsilon_figure

        epsilon_figure({"epsilon": (numbers, bound)}, plot, delta)
    if as_json:
        _print_json(ctx, {"count": numbers, **bound.record()})
    else:
        out.print(tables.curve(numbers, bound))


@app.command()
def calibrate(
    ctx: typer.Context,
    name: Name,
    solve_for: Annotated[str, typer.Option(help="Parameter to find, or 'count'.")],
    settings: Set = [],  # noqa: B006 - typer copies it
    epsilon: Epsilon = None,
    delta: Delta = None,
    advantage: Advantage = None,
    tpr: Tpr = None,
    fpr: Fpr = None,
    beside: Beside = None,
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    as_json: Json = False,
) -> None:
    """Find the parameter value whose proven upper bound meets the target."""
    from mechc.cli.progress import compiling

    if (epsilon is None or delta is None) and advantage is None and tpr is None:
        raise DeclarationError(
            "calibrate: --epsilon and --delta are needed, or --advantage, or --tpr and --fpr"
        )
    values, number = values_of(settings), count_of(count)
    question(method, delta=delta, epsilon=epsilon)
    mechanism = mechc.load(name)
    if solve_for == "sampling_rate" and poisson is None:
        mechanism = mechc.poisson(mechanism, None, adjacency or "add_remove")
    else:
        mechanism = under(mechanism, poisson, adjacency, {*values, solve_for})
    mechanism.check({**mechanism.bound, **values}, partial=True)
    compiling(mechanism, err)
    found = mechc.calibrate(
        mechanism,
        solve_for=solve_for,
        epsilon=epsilon,
        delta=delta,
        advantage=advantage,
        tpr=tpr,
        fpr=fpr,
        beside=None if beside is None else mechc.open(beside),
        method=method,
        count=number,
        parameters=values,
    )
    _print_calibration(found, adjacency, ctx, as_json)


Target = Annotated[
    tuple[float, float], typer.Option("--target", "-t", help="EPSILON DELTA for all releases.")
]


@app.command()
def tournament(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(help="Mechanisms; all that add noise by default.")
    ] = None,
    target: Target = (1.0, 1e-6),
    count: Count = "1",
    poisson: Poisson = None,
    sensitivity: Annotated[float, typer.Option(help="How far the query moves.")] = 1.0,
    rank: Annotated[
        str, typer.Option(help="standard_deviation, absolute_error, entropy, quantile_95 or _999.")
    ] = "standard_deviation",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Rank mechanisms by the errors of the least noise that meets a target."""
    if plot is not None:
        writable(plot)
    with err.status("tournament") as status:
        found = mechc.tournament(
            target=target, count=count_of(count), sampling=poisson, mechanisms=names or None,
            sensitivity=sensitivity, rank=rank, progress=lambda name: status.update(name),
        )  # fmt: skip
    if plot is not None:
        found.plot(plot)
    if as_json:
        _print_json(ctx, found.record())
    else:
        out.print(str(found), markup=False, highlight=False, soft_wrap=True)


@app.command()
def optimise(
    ctx: typer.Context,
    name: Name,
    over: Annotated[list[str], typer.Option(metavar="NAME=LOW:HIGH", help="Shape to search.")],
    minimise: Annotated[str, typer.Option(help="variance, or an error, as rank.")] = "variance",
    settings: Set = [],  # noqa: B006 - typer copies it
    target: Target = (1.0, 1e-6),
    count: Count = "1",
    poisson: Poisson = None,
    sensitivity: Annotated[float, typer.Option(help="How far the query moves.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Find the shape of noise whose error is least at a target."""
    with err.status(f"optimising {name}"):
        found = mechc.optimise(
            name, over=ranges_of(over), minimise=minimise, target=target, count=count_of(count),
            sampling=poisson, sensitivity=sensitivity, parameters=values_of(settings),
        )  # fmt: skip
    if as_json:
        _print_json(ctx, found.record())
    else:
        out.print(str(found), markup=False, highlight=False, soft_wrap=True)


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="A mechanism, its file, or an emitted kernel.")],
    level: Annotated[str, typer.Option(help="quick or full.")] = "quick",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON to write.")] = None,
    against: Annotated[
        Path | None, typer.Option("--certificate", help="A certificate that should be this one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify a kernel against its declaration in ball arithmetic; exit code 1 if it fails."""
    from mechc.cli import subject
    from mechc.verify.certificate import table, verify

    if output is not None:
        writable(output)
    mechanism, kernel = subject.find(name)
    certificate = verify(under(mechanism, poisson, adjacency), level, kernel)
    if output is not None:
        output.write_text(certificate.to_json(), encoding="utf-8")
    if as_json:
        typer.echo(certificate.to_json(), nl=False)
    else:
        out.print(table(certificate))
    other = (
        [] if against is None else certificate.differences(against.read_text("utf-8", "replace"))
    )
    if other:
        err.print(f"{against} is another certificate: {', '.join(other)}", markup=False)
    if other or not certificate.ok:
        raise typer.Exit(1)


@app.command("open")
def open_run(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="Run file.")],
    delta: Delta = None,
    epsilon: Epsilon = None,
    method: Method = "auto",
    allow_files: AllowFiles = False,
    as_json: Json = False,
) -> None:
    """Show the run that a file holds, and its epsilon or delta if asked."""
    run = mechc.open(path, allow_files=allow_files)
    bounds = [run.epsilon(delta, method=method)] if delta is not None else []
    bounds += [run.delta(epsilon, method=method)] if epsilon is not None else []
    if as_json:
        _print_json(ctx, {"run": repr(run), "count": run.count, "adjacency": run.adjacency,
                     "claims": run.claims,
                     "answers": [bound.record() for bound in bounds]})  # fmt: skip
        return
    out.print(f"run        {run}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"steps      {run.count}\nadjacency  {run.adjacency.words}", highlight=False)
    for bound in bounds:
        _print_bound(bound)


@app.command()
def record(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="Run file; it is made if there is none.")],
    name: MaybeName = "",
    settings: Set = [],  # noqa: B006 - typer copies it
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    p: DensityP = "",
    q: DensityQ = "",
    var: Variable = "x",
    domain: Domain = [],  # noqa: B006 - typer copies it
    delta: Delta = None,
    allow_files: AllowFiles = False,
    as_json: Json = False,
) -> None:
    """Add steps to a run file, one line that is on disk when the command ends."""
    from mechc.composition import run_record

    run = run_of(mechanism_of(name, p, q, var, domain), settings, poisson, adjacency, count)
    before = mechc.open(path, allow_files=allow_files) if path.exists() else 0
    whole = run + before  # refuses what cannot be composed before it is written
    run.save(path, append=True)
    if delta is None:
        out.print(f"{path}: {whole.count} steps", markup=False, highlight=False)
        return
    asked = run_record.questions(delta, None)
    run_record.add(path, run_record.line(mechc.compose(), asked, whole))
    _print_bound(whole.epsilon(delta), ctx, as_json)


@app.command()
def check(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(help="Run file: JSON lines, or TOML with [[step]].")],
    certified: Annotated[
        bool, typer.Option("--certified", help="Ball arithmetic too (TOML).")
    ] = False,
    allow_files: AllowFiles = False,
    as_json: Json = False,
) -> None:
    """Ask the questions of a run file again and compare; exit code 1 at a contradiction.

    Of a TOML file, compare all methods with each other.
    """
    from mechc.composition import agreement, run_file

    if run_file.is_json(run):
        checked = run_file.recheck(run, allow_files=allow_files)
        if as_json:
            _print_json(ctx, checked.record())
        else:
            out.print(str(checked), markup=False, highlight=False, soft_wrap=True)
        ok = checked.ok
    else:
        composition, epsilons = run_file.read(run, allow_files=allow_files)
        report = agreement.check(composition, epsilons, certified)
        out.print(str(report), markup=False, highlight=False)
        ok = report.ok
    if not ok:
        raise typer.Exit(1)


@app.command()
def warm(
    names: Annotated[
        list[str] | None, typer.Argument(help="Mechanisms whose kernels are wanted, or none.")
    ] = None,
) -> None:
    """Compile ahead what is compiled once on a machine: the accountants, and kernels."""
    from mechc.cli.progress import compiling_all, warm_up

    start = time.perf_counter()
    for name in names or ():
        mechc.load(name)  # its error, if it has one
    compiling_all(names or (), err)
    with err.status("compiling the accountants"):
        warm_up()
    out.print(f"compiled in {time.perf_counter() - start:.1f} s", highlight=False)


individual = typer.Typer(no_args_is_help=True, help="One epsilon a person, for populations.")
app.add_typer(individual, name="individual")


@individual.callback()
def _individual() -> None:
    """Keep `chunk` a command of its own."""


@individual.command("chunk")
def individual_chunk(
    path: Annotated[Path, typer.Argument(help="TOML file with the words of the run.")],
    index: Annotated[int | None, typer.Argument(help="Number of the chunk, from 0.")] = None,
) -> None:
    """Account for one chunk of people; without a number, print how many chunks there are."""
    from mechc.individual.distributed import Run

    run = Run.read(path)
    if index is None:
        typer.echo(run.results.chunks)
    else:
        run.chunk(index)
        out.print(f"chunk {index} is in {run.results.path}", highlight=False)


@app.command()
def cache(
    ctx: typer.Context,
    action: Annotated[str, typer.Argument(help="list, size or clear.")] = "list",
    as_json: Json = False,
) -> None:
    """List, size or clear the cache of compiled kernels."""
    from mechc.report import tables

    if as_json:
        _print_json(ctx, tables.cache_record(action))
    else:
        out.print(tables.cache(action), highlight=False)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to write kernel and figure.")] = Path(),
) -> None:
    """Compile a new noise distribution and account for published training runs."""
    from mechc.cli import demonstration

    demonstration.run(out, folder)


def _under(bound: Bound, adjacency: str | None) -> Bound:
    """An answer of any relation is given for the one that was asked for, which `under` checked."""
    return bound if adjacency is None else bound.under(mechc.Adjacency.of(adjacency))


def _print_bound(
    bound: Bound, ctx: typer.Context | None = None, as_json: bool = False, **more: Any
) -> None:
    from mechc.report import tables

    if as_json and ctx is not None:
        _print_json(ctx, {**bound.record(), **more})
    else:
        out.print(tables.bound(bound), highlight=False)


def _print_calibration(
    found: Calibration, adjacency: str | None, ctx: typer.Context, as_json: bool
) -> None:
    bound = _under(found.bound, adjacency)
    if not as_json:
        out.print(f"{found.name} = {found.value!r}", highlight=False)
    _print_bound(bound, ctx, as_json, **{found.name: found.value, "count": found.count})


def _print_json(ctx: typer.Context, values: dict[str, Any]) -> None:
    """Print an answer with what was asked and by which version; nan is null and inf "inf"."""
    from mechc.accountants.bound import plain

    asked = {k: v for k, v in ctx.params.items() if v not in (None, "", [], False, ())}
    asked.pop("as_json", None)
    typer.echo(json.dumps(plain({**values, "inputs": asked, "version": mechc.__version__})))


if os.environ.get("COLUMNS") is None and not out.is_terminal:
    out.width = err.width = 100  # piped output should not be folded at 80 columns
