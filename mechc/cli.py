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
from mechc.arguments import (
    Adjacency,
    Count,
    Delta,
    DensityP,
    DensityQ,
    Direction,
    Domain,
    Epsilon,
    Json,
    LogDelta,
    MaybeName,
    Method,
    Name,
    Output,
    Poisson,
    Set,
    Variable,
    count_of,
    counts_of,
    mechanism_of,
    run_of,
    values_of,
)
from mechc.errors import DeclarationError, LoweringError, MechcError, UnsupportedError
from mechc.operations import under

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound

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
    from mechc.present import catalogue
    from mechc.present.progress import compiling_all

    if compile_missing:
        compiling_all(mechc.available(), err)
    out.print(catalogue.table(compile_missing))


@app.command("methods")
def list_methods() -> None:
    """List the accountants with what they need, prove and cost."""
    from mechc.present import tables

    out.print(tables.methods())


@app.command()
def show(
    name: Name,
    stage: Annotated[str, typer.Option(help="explain, pair, calculus, ir or source.")] = "explain",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
) -> None:
    """Show what was derived from a declaration, at any stage of the compiler."""
    from mechc.present import stages

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
    from mechc.present.progress import compiling

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
    from mechc.present.progress import compiling

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
    from mechc.present import comparison

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
    from mechc.present import tables

    numbers = counts_of(counts)
    run = run_of(mechc.load(name), settings, poisson, adjacency, "1")
    bound = _under(run.epsilon_curve(delta, numbers, method=method), adjacency)
    if plot is not None:
        from mechc.present.plot import epsilon_figure

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
    count: Count = "1",
    poisson: Poisson = None,
    adjacency: Adjacency = None,
    method: Method = "auto",
    as_json: Json = False,
) -> None:
    """Find the parameter value whose proven upper bound meets the target."""
    if epsilon is None or delta is None:
        raise DeclarationError("calibrate: --epsilon and --delta are needed")
    values = values_of(settings)
    mechanism = under(mechc.load(name), poisson, adjacency, {*values, solve_for})
    found = mechc.calibrate(
        mechanism,
        solve_for=solve_for,
        epsilon=epsilon,
        delta=delta,
        method=method,
        count=count_of(count),
        parameters=values,
    )
    if as_json:
        _print_json({solve_for: found.value, **_under(found.bound, adjacency).record()})
    else:
        out.print(f"{solve_for} = {found.value!r}", highlight=False)
        _print_bound(_under(found.bound, adjacency), False)


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
    from mechc.verify import subject
    from mechc.verify.certificate import verify
    from mechc.verify.table import table

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


@app.command()
def check(
    run: Annotated[Path, typer.Argument(help="TOML file with [[step]] tables.")],
    certified: Annotated[bool, typer.Option("--certified", help="Ball arithmetic too.")] = False,
    allow_files: Annotated[
        bool, typer.Option("--allow-files", help="Run the mechanism files that the run names.")
    ] = False,
) -> None:
    """Compare all methods on one run with each other; exit code 1 at a contradiction."""
    from mechc.verify import differential

    composition, epsilons = differential.read(run, allow_files=allow_files)
    report = differential.check(composition, epsilons, certified)
    out.print(str(report), markup=False, highlight=False)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def cache(
    action: Annotated[str, typer.Argument(help="list, size or clear.")] = "list",
) -> None:
    """List, size or clear the cache of compiled kernels."""
    from mechc.present import tables

    out.print(tables.cache(action), highlight=False)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to write kernel and figure.")] = Path(),
) -> None:
    """Compile a new noise distribution and account for published training runs."""
    from mechc.present import demo

    demo.run(out, folder)


def _under(bound: Bound, adjacency: str | None) -> Bound:
    """An answer of any relation is given for the one that was asked for, which `under` checked."""
    return bound if adjacency is None else bound.under(mechc.Adjacency.of(adjacency))


def _print_bound(bound: Bound, as_json: bool) -> None:
    from mechc.present import tables

    if as_json:
        typer.echo(bound.to_json())
    else:
        out.print(tables.bound(bound), highlight=False)


def _print_json(values: dict[str, Any]) -> None:
    """Print JSON; nan becomes null and inf the string "inf"."""
    from mechc.accountants.bound import plain

    typer.echo(json.dumps(plain(values)))


if os.environ.get("COLUMNS") is None and not out.is_terminal:
    out.width = err.width = 100  # piped output should not be folded at 80 columns
