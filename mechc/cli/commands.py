"""The commands: `mechc list | show | emit | epsilon | delta | curve | compare | calibrate ...`.

What is asked for is checked, files to be written included, before anything is compiled. Errors are
one line on stderr.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, TypeVar

import typer
from rich.console import Console, ConsoleRenderable
from rich.text import Text
from typer.core import TyperGroup

import mechc
from mechc.cli import arguments as args
from mechc.errors import (
    CacheError,
    DeclarationError,
    LoweringError,
    MechcError,
    UnsupportedError,
    is_interrupt,
)
from mechc.hints import ARGUMENTS, COMMANDS, NOISE, OPTIONS, QUESTIONS, TRAINING, meaning

if TYPE_CHECKING:
    from mechc.accountants.bound import Bound
    from mechc.adjacency import Claim
    from mechc.composition.events import Composition
    from mechc.composition.mechanism import Mechanism
    from mechc.composition.queries.calibration import Calibration
    from mechc.individual.family import Family

    Said = TypeVar("Said", Bound, Claim)


def _shown(text: str) -> str:
    """A text in which what would steer a terminal stands as Python writes it."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


class _Console(Console):
    """One that names of files, and words of run files, cannot steer, in tables neither."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Make what is shown of a text as rich does."""
        return super().render_str(_shown(text), **options)


out = _Console(emoji=False, markup=False)  # a colon in a message is one, and so is [a, b]
err = _Console(stderr=True, emoji=False, markup=False)


EXIT_CODES = (
    "Exit codes: 0 answered; 1 a check failed or something could not be computed, read or written; "
    "2 bad input; 130 interrupted."
)
UsageError: Any = typer.BadParameter.__base__  # of the click that typer brings


def _meant(word: str, ctx: Any) -> str:
    """What was meant by an option that there is not: another one, or a parameter."""
    from mechc.composition import training

    options = {option.name for option in ctx.command.params}
    if word in OPTIONS:
        targets = "target" in options and word in ("epsilon", "delta")
        return "; did you mean --target EPSILON DELTA?" if targets else f"; {OPTIONS[word]}"
    ours = meaning(word, options, TRAINING if "dataset_size" in options else ARGUMENTS)
    if ours.partition(",")[0] in options:
        return f"; did you mean --{ours.replace('_', '-')}?"
    without = [  # a value without the option it is of
        (item.value != word, f"; did you mean {option.opts[0]} {item.value}?")
        for option in ctx.command.params
        if option.opts[0].startswith("--") and word.isidentifier() and len(word) > 2
        for item in option.shell_complete(ctx, word)
        if item.type == "plain" and item.value.startswith(word)
    ]
    if without:
        return min(without, key=lambda found: found[0])[1]
    if word in mechc.available():
        if "name" in options:
            return "; several mechanisms are steps of a run file: mechc record, then mechc open"
        gaussian = "; its noise is Gaussian, others are asked by mechc epsilon NAME --poisson RATE"
        return gaussian if "dataset_size" in options else ""
    known = args.parameters()(ctx, "")
    is_parameter = word in known or meaning(word, known) or not word.isidentifier()
    if is_parameter and "settings" in options:
        if parameter := meaning(word, known):
            return f"; did you mean --set {parameter}=?"
        return "; a parameter of a mechanism is given by --set NAME=VALUE"
    if known and (word in NOISE or meaning(word, NOISE)):
        taken = f"; the mechanism has {', '.join(known)}, given by --set NAME=VALUE"
        return taken if "settings" in options else ""
    if word in training.WORDS or meaning(word, training.WORDS):
        return "; a training run in its own words is asked by mechc dpsgd"
    if not word.isidentifier():
        return "; a value follows the name of its option"
    return _in_python(word)


def _in_python(word: str) -> str:
    """Where Python has what the command line has not."""
    from mechc.composition.events import Composition

    if word in ("group_size", *mechc.__all__):
        return f"; that is mechc.{word.removesuffix('_size')}, in Python"
    questions = dir(Composition)
    asked = word if word in questions else meaning(word, questions, QUESTIONS)
    return f"; that is run.{asked}, in Python" if asked else ""


def _meant_command(word: str, ctx: Any) -> str:
    """What was meant by a command that there is not: another one, or a call in Python."""
    known = COMMANDS.get(word)
    return f"; that is mechc {known}" if known else _in_python(word)


class _Group(TyperGroup):
    """The commands, with errors shown as one line."""

    def make_context(self, *given: Any, **how: Any) -> Any:
        """Read what stands before the name of a command."""
        try:
            return super().make_context(*given, **how)
        except UsageError as error:
            _fail(_refusal(error), 2)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and keep what was typed."""
        ctx.meta["typed"] = tuple(args)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command and turn errors into exit codes."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            _fail(_refusal(error), 2)
        except MechcError as error:
            bad_input = isinstance(error, (DeclarationError, UnsupportedError, LoweringError))
            _fail(f"mechc: {error}", 2 if bad_input else 1)
        except SystemError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise


def _refusal(error: Any) -> str:
    """What is wrong with the words of a command; nothing of one without any, which shows help."""
    words = str(error.format_message()).rstrip(".")
    option = re.search(
        r"No such (?:(option):?|command) '?-*([\w-]+)|(extra) arg.*\(([^ )]+)", words
    )
    wrong = (option[2] or option[4]).replace("-", "_") if option else ""
    meant = _meant if option and (option[1] or option[3]) else _meant_command
    if wrong and (hint := meant(wrong, error.ctx)):
        words = re.split(r" \(Possible|\. Did", words)[0] + hint
    at = error.ctx if error.ctx is not None and error.ctx.parent is not None else None
    about = f"mechc {at.command_path.partition(' ')[2]}" if at else "mechc"
    return f"{about}: {words}; see {about} --help" if words else ""


def _fail(words: str, code: int) -> NoReturn:
    if words:
        err.print(words, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


app = typer.Typer(
    cls=_Group, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["--help", "-h"],
        "token_normalize_func": lambda word: word.replace("_", "-"),
    },
    help="A mechanism compiler for differential privacy.", epilog=EXIT_CODES,
)  # fmt: skip


def run() -> None:
    """Run the command that was typed."""
    gc.set_threshold(1_000_000)  # imports leave no garbage: a tenth of a short command
    warnings.formatwarning = lambda message, *_, **__: _shown(f"mechc: {message}\n")
    atexit.register(gc.freeze)  # nor is there any to look for at the end: a quarter of one
    app(prog_name="mechc")  # of python -m mechc too


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as of
        from platform import machine, python_version, system

        libraries = "".join(f"{name} {of(name)}, " for name in ("numpy", "scipy", "numba", "sympy"))
        runs_on = f"Python {python_version()}, {libraries}{system()} {machine()}"
        out.print(f"mechc {mechc.__version__} ({runs_on})", highlight=False)
        raise typer.Exit


class Answer(NamedTuple):
    """A record for JSON, or what finds it; what is shown to people; the exit code."""

    record: dict[str, Any] | Callable[[], dict[str, Any]]
    shown: Callable[[], Any]
    code: int = 0


def _print(ctx: typer.Context, answer: Answer) -> None:
    """Print an answer as it is shown to people, or as JSON: nan is null, and infinity "inf"."""
    if ctx.params["as_json"]:
        from mechc.accountants.bound import plain

        unsaid: tuple[Any, ...] = (None, "", [], ())
        asked = {k: v for k, v in ctx.params.items() if v is not False and v not in unsaid}
        del asked["as_json"]
        record = answer.record() if callable(answer.record) else answer.record
        typer.echo(json.dumps(plain({**record, "inputs": asked, "version": mechc.__version__})))
    else:
        shown = answer.shown()
        for part in shown if isinstance(shown, list) else [shown]:
            if isinstance(part, ConsoleRenderable):
                out.print(part, highlight=False)
            else:
                out.print(str(part), highlight=False, soft_wrap=True)
    if answer.code:
        raise typer.Exit(answer.code)


def command(name: str | None = None, group: typer.Typer = app) -> Callable[[Any], Any]:
    """Add a command, its groups of options spread, that prints its answer, as JSON if asked."""
    return lambda made: group.command(name)(args.grouped(made, _print))


@command("list")
def list_mechanisms(
    compile_missing: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile what has no kernel yet, once.")
    ] = False,
) -> Answer:
    """List the mechanisms that can be named, with what is known about each."""
    from mechc.cli import catalogue

    if compile_missing:
        from mechc.cli.progress import compiling_all

        compiling_all(mechc.available(), err)
    found = catalogue.rows()
    return Answer({"mechanisms": found}, lambda: catalogue.table(found, out.width))


@command("methods")
def list_methods() -> Answer:
    """List the accountants with what they need, prove and cost."""
    from mechc.report import tables

    return Answer({"methods": tables.method_rows()}, tables.methods)


@command()
def show(
    what: args.Sample,
    stage: Annotated[
        str, args.word("explain, pair, calculus, ir or source.", "mechc.report.stages:STAGES")
    ] = "explain",
) -> Answer:
    """Show what was derived from a declaration, at any stage of the compiler."""
    from mechc.report import stages

    mechanism = what.under()
    shown = stages.show(mechanism, stage)

    def record() -> dict[str, Any]:
        with out.capture() as text:
            out.print(shown, highlight=False)
        return {"shown": text.get(), **_claimed(mechanism)}

    return Answer(record, lambda: shown)


@command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the mechanism, and of its file.")],
) -> Answer:
    """Write a commented mechanism file to start from."""
    from mechc.cli import new_file

    return _wrote(new_file.write(name))


@command()
def emit(
    what: args.Sample,
    output: args.Output,
    law: Annotated[
        bool, typer.Option("--law", help="With cumulants, masses of cells and delta of one step.")
    ] = False,
) -> Answer:
    """Write the compiled kernel as a standalone Python module."""
    args.writable(output)
    mechanism = what.under()
    return _wrote(mechanism.emit(output, law=law), mechanism)


@command()
def report(
    what: args.Settings,
    output: args.Output,
    certificate: Annotated[
        str, args.word("quick, full or none.", "mechc.report.datasheet:LEVELS")
    ] = "quick",
) -> Answer:
    """Write a datasheet of a mechanism as one HTML file."""
    from mechc.report import datasheet

    args.writable(output)
    datasheet.check(output)
    mechanism, values = what.open(None)
    path = mechanism.report(output, certificate=certificate, **values)
    return _wrote(path, mechanism)


@command()
def epsilon(
    what: args.Densities,
    delta: args.Delta = None,
    log_delta: Annotated[float | None, args.amount("Natural log of delta.")] = None,
    method: args.Method = "auto",
    direction: args.Direction = "both",
) -> Answer:
    """Print bounds on epsilon for a given delta."""
    if (delta is None) == (log_delta is None):
        raise DeclarationError("epsilon: give exactly one of --delta and --log-delta")
    args.question(method, direction, delta=delta, log_delta=log_delta)
    run = what.run(what.count)
    bound = run.epsilon(delta, log_delta=log_delta, method=method, direction=direction)
    return _bound(_under(bound, what.adjacency))


@command()
def delta(
    what: args.Densities,
    epsilon: args.Epsilon = None,
    method: args.Method = "auto",
    direction: args.Direction = "both",
    log: Annotated[bool, typer.Option("--log", help="Print log delta.")] = False,
) -> Answer:
    """Print bounds on delta for a given epsilon."""
    if epsilon is None:
        raise DeclarationError("delta: --epsilon is needed")
    args.question(method, direction, epsilon=epsilon)
    run = what.run(what.count)
    ask = run.log_delta if log else run.delta
    return _bound(_under(ask(epsilon, method=method, direction=direction), what.adjacency))


@command()
def dpsgd(
    what: args.Training,
    aim: args.Aim,
    solve_for: Annotated[
        str,
        args.word(
            "Find it for a target: noise_multiplier, batch_size, epochs or steps.",
            "mechc.composition.training:SOLVABLE",
        ),
    ] = "",
    record: Annotated[
        Path | None, typer.Option(help="Run file to add the run, and any --delta or --epsilon, to.")
    ] = None,
) -> Answer:
    """Print bounds on epsilon (delta, tpr) of a training run with DP-SGD; or solve for one word."""
    if solve_for:
        if record is not None:
            raise DeclarationError("dpsgd: --record adds a run, without --solve-for")
        words = {name: value for name, value in vars(what).items() if value is not None}
        return _found(aim.calibrate(mechc.dpsgd, solve_for, words), what.adjacency)
    asked = [value is not None for value in (aim.delta, aim.epsilon, aim.fpr)]
    if sum(asked) != 1 or (aim.advantage, aim.tpr) != (None, None):
        raise DeclarationError(
            "dpsgd: give exactly one of --delta, --epsilon and --fpr, or --solve-for and a target "
            "(such as --solve-for noise_multiplier --epsilon 3 --delta 1e-5)"
        )
    args.question(aim.method, delta=aim.delta, epsilon=aim.epsilon, fpr=aim.fpr)
    record = None if record is None else args.writable(record)
    training = mechc.dpsgd(**vars(what))
    run = training + (aim.released() or 0)
    if aim.fpr is None:
        (bound,) = _answers(run, aim.delta, aim.epsilon, aim.method)
    else:
        bound = run.tpr(aim.fpr, method=aim.method)
    if record is not None:
        _add(record, training, aim.delta, aim.epsilon, aim.allow_files)
    return _bound(bound, after=f"run        {run}", run=repr(run))


@command()
def compare(
    what: args.Repeated,
    epsilon: args.Epsilon = None,
    delta: args.Delta = None,
    plot: args.Plot = None,
) -> Answer:
    """Ask every method the same question: lower, estimate, upper and time."""
    from mechc.cli import comparison

    if (epsilon is None) == (delta is None):
        raise DeclarationError("compare: give exactly one of --epsilon and --delta")
    args.question(delta=delta, epsilon=epsilon)
    args.drawable(plot)
    run = what.run(what.count)
    word = "delta" if delta is None else "epsilon"
    found = comparison.answers(run, epsilon=epsilon, delta=delta)
    if plot is not None:
        at = f"epsilon {epsilon:g}" if delta is None else f"delta {delta:g}"
        comparison.figure(found, word, f"{run} at {at}", plot)
    claim = _under(run.claim, what.adjacency)
    claimed = {"claim": claim.record(), "adjacency": claim.adjacency}
    record = {"answers": comparison.record(found, claim), "run": repr(run), **claimed}
    return Answer(record, lambda: comparison.table(found, word, claim))


@command()
def curve(
    what: args.Settings,
    delta: args.GivenDelta = 1e-5,
    counts: Annotated[str, typer.Option(help="Counts, such as 1,10,100 or 1:1000:10.")] = "1:11",
    method: args.Method = "auto",
    plot: args.Plot = None,
) -> Answer:
    """Print epsilon after each of several numbers of steps."""
    from mechc.report import tables

    numbers = args.counts_of(counts)
    args.question(method, delta=delta)
    args.drawable(plot)
    run = what.run()
    bound = _under(run.epsilon_curve(delta, numbers, method=method), what.adjacency)
    if plot is not None:
        run.plot(plot, kind="steps", delta=delta, counts=numbers, method=method)
    return Answer(bound.record(), lambda: tables.curve(numbers, bound))


@command()
def calibrate(
    what: args.Repeated,
    aim: args.Aim,
    solve_for: Annotated[
        str,
        typer.Option(
            help="Parameter to find, sampling_rate or count.",
            metavar="WORD",
            parser=args.word_of,
            autocompletion=args.parameters("count", "sampling_rate"),
        ),
    ] = "",
) -> Answer:
    """Find the parameter value whose proven upper bound meets the target."""
    targets = (aim.epsilon, aim.delta), (aim.advantage,), (aim.tpr, aim.fpr)
    if all(None in target for target in targets):
        raise DeclarationError(
            "calibrate: --epsilon and --delta (0 of pure noise) are needed, or --advantage, or "
            "--tpr and --fpr"
        )
    if not solve_for:
        known = ", ".join(p.name for p in what.mechanism().declaration.parameters)
        raise DeclarationError(
            f"calibrate: --solve-for is needed (one of {known}, sampling_rate, count)"
        )
    args.question(aim.method, delta=aim.delta, epsilon=aim.epsilon)
    mechanism, values = what.open(solve_for)
    found = aim.calibrate(mechanism, solve_for, values, count=what.count)
    return _found(found, what.adjacency)


@command()
def tournament(
    search: args.Search,
    names: args.Names = None,
    rank: Annotated[
        str,
        args.word("standard_deviation, absolute_error, entropy, quantile_95 or _999.", args.ERRORS),
    ] = "standard_deviation",
    plot: args.Plot = None,
) -> Answer:
    """Rank mechanisms by the errors of the least noise that meets a target."""
    args.drawable(plot)
    found = mechc.tournament(mechanisms=names or None, rank=rank, **search.words)
    if plot is not None:
        found.plot(plot)
    return Answer(found.record(), lambda: found, int(found.best.event is None))


@command()
def optimise(
    name: args.Name,
    search: args.Search,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=LOW:HIGH",
            help="Shape to search.",
            autocompletion=args.parameters(end="="),
        ),
    ],
    minimise: Annotated[
        str, args.word("variance, or an error, as rank.", args.ERRORS, "variance")
    ] = "variance",
    settings: args.Set = None,
) -> Answer:
    """Find the shape of noise whose error is least at a target."""
    found = mechc.optimise(
        name, over=args.ranges_of(over), minimise=minimise, parameters=args.values_of(settings),
        **search.words,
    )  # fmt: skip
    return Answer(found.record(), lambda: found)


@command()
def verify(
    what: args.Sample,
    level: Annotated[str, args.word("quick or full.", "mechc.verify.certificate:LEVELS")] = "quick",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON to write.")] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--certificate",
            exists=True,
            dir_okay=False,
            help="A certificate that should be this one.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Verify anew what has been verified earlier.")
    ] = False,
) -> Answer:
    """Verify a kernel (a mechanism, its file, an emitted kernel); exit code 1 if it fails.

    In ball arithmetic, against its declaration.
    """
    from mechc.cli import subject
    from mechc.kernel.build import write_atomically
    from mechc.verify import certificate as certificates

    output = None if output is None else args.writable(output)
    mechanism, kernel = subject.find(what.name)
    mechanism = what.under((), mechanism)
    again = again or against is not None
    certificate = certificates.verify(mechanism, level, kernel, again=again)
    if output is not None:
        write_atomically(output, certificate.to_json())
    record = {**json.loads(certificate.to_json()), "kept": certificate.kept, **_claimed(mechanism)}
    shown: list[Any] = [certificates.table(certificate)]
    if against is not None:
        record["differences"] = certificate.differences(against.read_text("utf-8", "replace"))
        if others := ", ".join(record["differences"]):
            shown.append(f"{against} is another certificate: {others}")
    return Answer(record, lambda: shown, int(len(shown) > 1 or not certificate.ok))


@command("open")
def open_run(
    path: args.RunPath,
    delta: args.Delta = None,
    epsilon: args.Epsilon = None,
    method: args.Method = "auto",
    allow_files: args.AllowFiles = False,
) -> Answer:
    """Show the run that a file holds, and its epsilon or delta if asked."""
    from mechc.report import tables

    run = mechc.open(path, allow_files=allow_files)
    bounds = _answers(run, delta, epsilon, method)
    record = {"run": repr(run), "count": run.count, **_claimed(run), "claims": run.claims,
              "answers": [bound.record() for bound in bounds]}  # fmt: skip
    about = f"run        {run}\nsteps      {run.count}\nadjacency  {run.adjacency.words}"
    return Answer(record, lambda: [about, *map(tables.bound, bounds)])


@command()
def record(
    path: args.RunPath,
    what: args.Densities,
    delta: args.Delta = None,
    allow_files: args.AllowFiles = False,
) -> Answer:
    """Add steps to a run file, one line that is on disk when the command ends.

    NAME may be another run file, JSON or TOML, whose steps are added, --count times.
    """
    path = args.writable(path)
    args.question(delta=delta)
    if path.name in mechc.available():
        raise DeclarationError(f"record: a run file comes first, as in record run.json {path.name}")
    if what.name.endswith((".json", ".toml")):
        if what != args.Densities(what.name, count=what.count):
            raise DeclarationError(
                f"record: {what.name} is a run file, whose steps have all that they need (expected "
                "--count alone beside it)"
            )
        run = mechc.open(what.name, allow_files=allow_files) * what.count
    else:
        run = what.run(what.count)
    whole = _add(path, run, delta, None, allow_files)
    if delta is None:
        steps = {"count": whole.count, **_claimed(whole)}
        words = "1 step" if whole.count == 1 else f"{whole.count} steps"
        return Answer({"path": path, **steps}, lambda: f"{path}: {words} in all")
    return _bound(whole.epsilon(delta))


def _add(
    path: Path, run: Composition, delta: float | None, epsilon: float | None, allow_files: bool
) -> Composition:  # fmt: skip
    """Add a run to a file, and what is then asked of the whole, which is returned."""
    from mechc.composition import run_record

    begun = path.exists() and path.stat().st_size
    before = mechc.open(path, allow_files=allow_files) if begun else 0
    whole = run + before  # refuses what cannot be composed before it is written
    run.save(path, append=True)
    if asked := run_record.questions(delta, epsilon):
        run_record.add(path, run_record.line(mechc.compose(), asked, whole))
    return whole


@command()
def check(
    run: args.RunPath,
    certified: Annotated[
        bool, typer.Option("--certified", help="Ball arithmetic too (TOML).")
    ] = False,
    allow_files: args.AllowFiles = False,
) -> Answer:
    """Ask the questions of a run file again and compare; exit code 1 at a contradiction.

    Of a TOML file, with tables called step, compare all methods with each other.
    """
    from mechc.composition import run_file
    from mechc.verify import agreement

    if run_file.is_json(run):
        found = run_file.recheck(run, allow_files=allow_files)
        return Answer(found.record(), lambda: found, int(not found.ok))
    composition, epsilons = run_file.read(run, allow_files=allow_files)
    compared = agreement.check(composition, epsilons, certified)
    record = {"ok": compared.ok, "compared": str(compared).splitlines(), **_claimed(composition)}
    return Answer(record, lambda: compared, int(not compared.ok))


@command()
def warm(names: args.Names = None) -> Answer:
    """Make ahead what is made once on a machine: machine code of the accountants, and kernels.

    Of the mechanisms that are named certificates too, where python-flint is installed.
    """
    from importlib.util import find_spec

    from mechc.cli.progress import compiling_all, warm_up
    from mechc.kernel import cache

    start = time.perf_counter()
    mechanisms = [mechc.load(name) for name in names or ()]
    compiling_all(mechanisms, err)
    for mechanism in mechanisms:
        mechanism.compile()  # its error, if it has one
    proved = mechanisms if find_spec("flint") else ()
    failed = [made.name for made in proved if not made.verify().ok]
    warm_up()
    if cache.is_temporary():
        raise CacheError("warm: kernels were compiled and are not kept")
    seconds = time.perf_counter() - start
    said = f"made in {seconds:.1f} s" + "".join(f"; see mechc verify {name}" for name in failed)
    return Answer({"seconds": seconds, "failed": failed}, lambda: said, int(bool(failed)))


individual = typer.Typer(no_args_is_help=True, help="One epsilon a person, for populations.")
app.add_typer(individual, name="individual")


@individual.callback()
def _individual() -> None:
    """Keep `chunk` a command of its own."""


@command("chunk", individual)
def individual_chunk(
    path: Annotated[Path, typer.Argument(help="TOML file with the words of the run.")],
    index: Annotated[int | None, typer.Argument(help="Number of the chunk, from 0.")] = None,
) -> Answer:
    """Account for one chunk of people; without a number, print how many chunks there are."""
    from mechc.individual.distributed import Run

    run = Run.read(path)
    claimed = _claimed(run.pieces[0].family)
    found = {"chunks": run.results.chunks, "path": run.results.path, **claimed}
    if index is None:
        return Answer(found, lambda: run.results.chunks)
    run.chunk(index)
    return Answer({**found, "chunk": index}, lambda: f"chunk {index} is in {run.results.path}")


@command()
def cache(
    action: Annotated[str, typer.Argument(help="list, size or clear.")] = "list",
) -> Answer:
    """List, size or clear the cache of compiled kernels."""
    from mechc.report import tables

    found = tables.cache_record(action)
    return Answer(found, lambda: tables.cache(found))


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to write kernel and figure.")] = Path(),
) -> None:
    """Compile a new noise distribution and account for published training runs."""
    from mechc.cli import demonstration

    demonstration.run(out, args.writable(folder / demonstration.KERNEL_FILE).parent)


def _under(said: Said, adjacency: str | None) -> Said:
    """What is said of any relation is for the one that was asked for, which `under` checked."""
    return said if adjacency is None else said.under(mechc.Adjacency.of(adjacency))


def _answers(
    run: Composition, delta: float | None, epsilon: float | None, method: str
) -> list[Bound]:
    """What is asked for, of epsilon at a delta and delta at an epsilon."""
    asked = ((run.epsilon, delta), (run.delta, epsilon))
    return [ask(at, method=method) for ask, at in asked if at is not None]


def _claimed(what: Mechanism | Composition | Family) -> dict[str, Any]:
    return {"claim": what.claim.record(), "adjacency": what.claim.adjacency}


def _wrote(path: Any, mechanism: Mechanism | None = None) -> Answer:
    claimed = _claimed(mechanism) if mechanism else {}
    return Answer({"wrote": str(path), **claimed}, lambda: f"wrote {path}")


def _bound(bound: Bound, before: str = "", after: str = "", **more: Any) -> Answer:
    """A bound, and what is shown around it or recorded besides."""
    from mechc.report import tables

    def shown() -> list[Any]:
        return [part for part in (before, tables.bound(bound), after) if part]

    return Answer({**bound.record(), **more}, shown)


def _found(found: Calibration, adjacency: str | None) -> Answer:
    found = replace(found, bound=_under(found.bound, adjacency))
    before = f"{found.name} = {found.value!r}"
    return Answer(found.record(), _bound(found.bound, before).shown)


if os.environ.get("COLUMNS") is None and not out.is_terminal:
    out.width = err.width = 100  # piped output should not be folded at 80 columns
