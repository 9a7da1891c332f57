"""The command line: `mechc list | show | emit | epsilon | delta | curve | compare | calibrate ...`.

Errors of mechc's own are one line on stderr and exit code 2 for bad input, 1 for the rest.
"""

from __future__ import annotations

import json
import os
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
    run_of,
    values_of,
)
from mechc.composition.operations import under
from mechc.errors import DeclarationError, LoweringError, MechcError, UnsupportedError

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound
    from mechc.composition.calibration import Calibration


out = Console()
err = Console(stderr=True)


class _Group(TyperGroup):
    """The commands, with mechc's errors shown as one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn errors of mechc's own into exit codes."""
        try:
            return super().invoke(ctx)
        except MechcError as error:
            err.print(f"mechc: {error}", markup=False, highlight=False, soft_wrap=True)
            bad_input = isinstance(error, (DeclarationError, UnsupportedError, LoweringError))
            ctx.exit(2 if bad_input else 1)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="A mechanism compiler for differential privacy.",
)


def main() -> None:
    """Run the command line."""
    app()


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"mechc {mechc.__version__}", highlight=False)
        raise typer.Exit


@app.command("list")
def list_mechanisms(
    compile_missing: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile what has no kernel yet, once.")
    ] = True,
) -> None:
    """List the mechanisms that can be named, with what is known about each."""
    from mechc.cli import catalogue
    from mechc.cli.progress import compiling_all

    if compile_missing:
        compiling_all(mechc.available(), err)
    out.print(catalogue.table(compile_missing))


@app.command("methods")
def list_methods() -> None:
    """List the accountants with what they need, prove and cost."""
    from mechc.report import tables

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
def emit(
    name: Name,
    output: Output,
    poisson: Poisson = None,
    adjacency: Adjacency = None,
) -> None:
    """Write the compiled kernel as a standalone Python module."""
    from mechc.cli.progress import compiling

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
) -> None:
    """Write a datasheet of a mechanism as one HTML file."""
    from mechc.cli.progress import compiling

    values = values_of(settings)
    mechanism = under(mechc.load(name), poisson, adjacency, values)
    compiling(mechanism, err)
    out.print(f"wrote {mechanism.report(output, **values)}", highlight=False)


@app.command()
def epsilon(
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
    run = run_of(mechanism_of(name, p, q, var, domain), settings, poisson, adjacency, count)
    bound = run.epsilon(delta, log_delta=log_delta, method=method, direction=direction)
    _print_bound(_under(bound, adjacency), as_json)


@app.command()
def delta(
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
    run = run_of(mechanism_of(name, p, q, var, domain), settings, poisson, adjacency, count)
    ask = run.log_delta if log else run.delta
    bound = ask(epsilon, method=method, direction=direction)
    _print_bound(_under(bound, adjacency), as_json)


@app.command()
def dpsgd(
    dataset_size: DatasetSize = None,
    batch_size: BatchSize = None,
    noise_multiplier: NoiseMultiplier = None,
    epochs: Epochs = None,
    steps: Steps = None,
    sampler: Sampler = "poisson",
    adjacency: Adjacency = None,
    clip_norm: ClipNorm = 1.0,
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
        "clip_norm": clip_norm,
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
        _print_calibration(solve_for, found, adjacency, as_json)
        return
    if (delta is None) == (epsilon is None) or (advantage, tpr, fpr) != (None, None, None):
        raise DeclarationError(
            "dpsgd: give exactly one of --delta and --epsilon, or --solve-for and a target"
        )
    run = mechc.dpsgd(**inputs)
    run = run if beside is None else run + mechc.open(beside)
    asked = {"epsilon": epsilon} if delta is None else {"delta": delta}
    bound = (
        run.delta(epsilon, method=method) if delta is None else run.epsilon(delta, method=method)
    )
    if as_json:
        given = {name: value for name, value in {**inputs, **asked}.items() if value is not None}
        _print_json({**bound.record(), "inputs": given, "run": repr(run),
                     "version": mechc.__version__})  # fmt: skip
    else:
        out.print(f"run        {run}", markup=False, highlight=False, soft_wrap=True)
        _print_bound(bound, False)


@app.command()
def compare(
    name: Name,
    settings: Set = [],  # noqa: B006 - typer copies it
    epsilon: Epsilon = None,
    delta: Delta = None,
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
) -> None:
    """Ask every method the same question: lower, estimate, upper and time."""
    from mechc.cli import comparison

    if (epsilon is None) == (delta is None):
        raise DeclarationError("compare: give exactly one of --epsilon and --delta")
    run = run_of(mechc.load(name), settings, poisson, adjacency, count)
    out.print(comparison.table(run, epsilon=epsilon, delta=delta))


@app.command()
def curve(
    name: Name,
    settings: Set = [],  # noqa: B006 - typer copies it
    delta: Annotated[float, typer.Option("--delta", "-d", help="Target delta.")] = 1e-5,
    counts: Annotated[str, typer.Option(help="Counts, such as 1,10,100 or 1:1000:10.")] = "1:11",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    plot: Annotated[Path | None, typer.Option(help="Write a figure to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Print epsilon after each of several numbers of steps."""
    from mechc.report import tables

    numbers = counts_of(counts)
    run = run_of(mechc.load(name), settings, poisson, adjacency, "1")
    bound = _under(run.epsilon_curve(delta, numbers, method=method), adjacency)
    if plot is not None:
        from mechc.report.plot import epsilon_figure

        epsilon_figure({"epsilon": (numbers, bound)}, plot, delta)
    if as_json:
        _print_json({"count": numbers, **bound.record()})
    else:
        out.print(tables.curve(numbers, bound))


@app.command()
def calibrate(
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
    if (epsilon is None or delta is None) and advantage is None and tpr is None:
        raise DeclarationError(
            "calibrate: --epsilon and --delta are needed, or --advantage, or --tpr and --fpr"
        )
    values = values_of(settings)
    mechanism = mechc.load(name)
    if solve_for == "sampling_rate" and poisson is None:
        mechanism = mechc.poisson(mechanism, None, adjacency or "add_remove")
    else:
        mechanism = under(mechanism, poisson, adjacency, {*values, solve_for})
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
        count=count_of(count),
        parameters=values,
    )
    _print_calibration(solve_for, found, adjacency, as_json)


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
        _print_json({"run": repr(run), "count": run.count, "adjacency": run.adjacency,
                     "claims": run.claims, "version": mechc.__version__,
                     "answers": [bound.record() for bound in bounds]})  # fmt: skip
        return
    out.print(f"run        {run}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"steps      {run.count}\nadjacency  {run.adjacency.words}", highlight=False)
    for bound in bounds:
        _print_bound(bound, False)


@app.command()
def record(
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
    _print_bound(whole.epsilon(delta), as_json)


@app.command()
def check(
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
            _print_json(checked.record())
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
def cache(
    action: Annotated[str, typer.Argument(help="list, size or clear.")] = "list",
) -> None:
    """List, size or clear the cache of compiled kernels."""
    from mechc.report import tables

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


def _print_bound(bound: Bound, as_json: bool) -> None:
    from mechc.report import tables

    if as_json:
        typer.echo(bound.to_json())
    else:
        out.print(tables.bound(bound), highlight=False)


def _print_calibration(
    solve_for: str, found: Calibration, adjacency: str | None, as_json: bool
) -> None:
    bound = _under(found.bound, adjacency)
    if as_json:
        _print_json({solve_for: found.value, **bound.record()})
    else:
        out.print(f"{solve_for} = {found.value!r}", highlight=False)
        _print_bound(bound, False)


def _print_json(values: dict[str, Any]) -> None:
    """Print JSON; nan becomes null and inf the string "inf"."""
    from mechc.accountants.bound import plain

    typer.echo(json.dumps(plain(values)))


if os.environ.get("COLUMNS") is None and not out.is_terminal:
    out.width = err.width = 100  # piped output should not be folded at 80 columns
