"""Mechanism: what `mechc.load` returns and users call.

A mechanism is an origin (a mechanism file, a declaration or an emitted kernel), a chain of
structural transformations such as Poisson sampling, and parameters bound so far. Everything
derived from it is lazy: calling it with parameters needs the kernel, which comes from the cache
without sympy when it has been compiled before; only a first compilation, `declaration` and
`explain()` import the symbolic side.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from mechc.adjacency import NO_CLAIM, Adjacency, Claim
from mechc.composition import inputs
from mechc.composition.events import Event
from mechc.declare import catalog
from mechc.declare import transforms as steps
from mechc.declare.catalog import MechanismFile
from mechc.declare.transforms import OfLength, Sample, Transform, Truncate, Unlisted
from mechc.errors import DeclarationError, UnsupportedError, as_flag, public
from mechc.hints import QUESTIONS, of_package, suggestion
from mechc.kernel import build
from mechc.loss.window import ENDS, Window, fits
from mechc.numeric.jit import uncollected
from mechc.numeric.telling import Tell
from mechc.protocol import TAG, Kernel, Measure, ParameterInfo

if TYPE_CHECKING:
    from mechc.composition.queries.noise import Noise
    from mechc.declare.declaration import Declaration
    from mechc.report.explain import Explanation
    from mechc.verify.certificate import Certificate


OF_A_FILE = "the claim is the one that mechc wrote into the kernel file (mechc verify tells)"


@public
class Mechanism(inputs.SetOnce):
    """A mechanism whose parameters are still open, or bound in part.

    Attributes:
        origin: where the declaration comes from.
        transforms: structural transformations, innermost first.
        bound: parameter values fixed so far.
    """

    def __init__(
        self, origin: build.Origin, transforms: tuple[Transform, ...] = (),
        bound: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        """Combine the parts; users call `load` and the samplers instead."""
        self.origin = origin
        self.transforms = transforms
        self.bound = dict(bound or {})

    @cached_property
    def name(self) -> str:
        """Name for people, such as "poisson(gaussian)"."""
        return steps.describe(str(self.origin.name), self.transforms)

    @cached_property
    def key(self) -> str:
        """What identifies the kernel: digest of the origin's text, transforms and versions."""
        return build.key(self.origin, self.transforms)

    @cached_property
    def kernel(self) -> Kernel:
        """The compiled kernel, from the cache or freshly compiled.

        Raises:
            MechcError: the declaration is refused or cannot be compiled.
        """
        return self.compile()

    @property
    def _base(self) -> Mechanism | None:
        """The mechanism before a window, where that is the last transformation (`truncate`)."""
        last = self.transforms[-1] if self.transforms else None
        return Mechanism(self.origin, self.transforms[:-1]) if isinstance(last, Truncate) else None

    @cached_property
    def unlisted(self) -> Mechanism:
        """The same with outputs of its own, where the kernel knows them by their ratios alone.

        Raises:
            UnsupportedError: a kernel file, which does not say what its outcomes are.
        """
        if self.kernel.MEASURE != Measure.FINITE or self.declaration.measure == Measure.FINITE:
            return self
        return Mechanism(self.origin, (*self.transforms, Unlisted()))

    @cached_property
    def _behind(self) -> Mechanism | None:
        """The same where laws are made of its kernel, cut at the window: nothing is compiled."""
        base = self._base
        if base is None or base.tag_kernel is not None or base.reverse_kernel is not None:
            return None
        base = base.unlisted
        usual = np.array([p.usual for p in base.parameters])
        plain = fits(base.kernel, usual) and not {p.name for p in base.parameters} & {*ENDS}
        return base if plain else None

    @cached_property
    def law_kernel(self) -> Kernel:
        """The kernel that laws are made of: of what is behind a window, that of the base."""
        return cast(Kernel, Window(self._behind.kernel)) if self._behind else self.kernel

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel exists, so that nothing has to be derived."""
        if "kernel" not in vars(self):
            found = build.find(self.origin, self.transforms)
            if found is not None:
                vars(self)["kernel"] = found
        if "kernel" in vars(self):
            return True
        base = self._base
        return base is not None and base.is_compiled and self._behind is not None

    def compile(self, progress: Tell | None = None) -> Kernel:
        """Return the kernel, reporting each stage of a compilation to `progress`.

        Args:
            progress: called with the name of each stage as it begins; by default a line says so.
        """
        with uncollected():
            kernel = build.kernel(self.origin, self.transforms, progress)
        vars(self)["kernel"] = kernel
        return kernel

    @cached_property
    def reverse_kernel(self) -> Kernel | None:
        """The kernel of the "add" direction if it was declared separately, else None."""
        if self._behind is not None:
            return None
        return build.reverse_kernel(self.origin, self.transforms, self.kernel)

    @cached_property
    def tag_kernel(self) -> Kernel | None:
        """The kernel of the law of an index that the output tells, None if there is none."""
        if self._behind is not None:
            return None
        return build.tag_kernel(self.origin, self.transforms, self.kernel)

    @property
    def source(self) -> str:
        """Text of the emitted kernel module."""
        return build.source(self.kernel)

    def emit(self, path: str | os.PathLike[str], *, law: bool = False) -> Path:
        """Write the kernel as a standalone module (math, numpy and numba only).

        The file appears complete or not at all.

        Args:
            path: where to write; an existing file is replaced.
            law: whether the module also holds one step's law: cumulants, masses of cells and delta,
                by 150 lines that are the same in all kernels.

        Returns:
            The path written.

        Raises:
            CacheError: the file cannot be written.
        """
        from mechc.kernel.emit import with_law

        text = with_law(self.source) if law else self.source
        return build.write_atomically(inputs.as_path(path), text)

    @cached_property
    def declaration(self) -> Declaration:
        """The declaration with all transformations applied (imports sympy)."""
        return build.declaration(self.origin, self.transforms)

    @cached_property
    def moved_by(self) -> str | None:
        """Name of the parameter that says how far a query moves to which noise is added.

        "" where that is a formula of parameters, None where it is not declared as additive noise.
        """
        return cast("str | None", self.derived("moved_by", self._find_moved_by)["name"])

    @cached_property
    def stretched_by(self) -> str:
        """The same where the noise does not depend on that parameter, else ""."""
        return cast(str, self.derived("moved_by", self._find_moved_by)["alone"])

    @cached_property
    def mathematics(self) -> str:
        """Digest of the pair and of the domains of its parameters, the same in all versions."""
        if isinstance(self.origin, build.LoadedKernel):
            return str(self.kernel.DIGEST)
        return str(self.derived("mathematics", lambda: self.declaration.digest))

    def derived(self, what: str, make: Callable[[], Any]) -> Any:
        """What is read off the declaration, as JSON holds it; kept beside the kernel."""
        return build.derived(self.origin, self.transforms, what, make)

    @cached_property
    def moving(self) -> tuple[str, ...]:
        """Names of the parameters on which it depends how far a query moves, as far as is known."""
        if isinstance(self.origin, build.LoadedKernel):
            return ()
        return tuple(self.derived("moved_by", self._find_moved_by)["all"])

    def _find_moved_by(self) -> dict[str, Any]:
        from mechc.declare.declaration import Shift

        built = self.declaration.construction
        if not isinstance(built, Shift):
            return {"name": None, "alone": "", "all": []}
        inside = built.sensitivity.free_symbols
        moving = [p.name for p in self.declaration.parameters if p.symbol in inside]
        name = moving[0] if built.sensitivity.is_Symbol and moving else ""
        alone = "" if built.noise.has(built.sensitivity) else name
        return {"name": name, "alone": alone, "all": moving}

    def record(self) -> dict[str, Any]:
        """Return what a run file holds of the mechanism, from which it can be made again.

        A name that `load` knows with the digest of its file, or else the formulas as text; a file
        whose formulas have no text, or a kernel, by its path.

        Raises:
            UnsupportedError: a declaration that has no text, and is in no file.
        """
        chain = {"transforms": [step.words for step in self.transforms]}
        if isinstance(self.origin, build.LoadedKernel):
            module = self.origin.module
            path = os.path.abspath(module.__file__)
            return {"mechanism": module.NAME, "kernel": path, "digest": module.DIGEST, **chain}
        file = self.origin if isinstance(self.origin, MechanismFile) else None
        if file is not None and file.name in available() and build.origin(file.name) == file:
            return {"mechanism": file.name, "digest": file.text_digest, **chain}
        from mechc.declare.text import text_of

        declared = build.declaration(self.origin, ())
        try:
            return {"mechanism": declared.name, "text": text_of(declared), **chain}
        except UnsupportedError as error:
            if file is None:
                how = "a declaration in a mechanism file is kept by the path of the file"
                raise UnsupportedError(f"{error}; {how}") from None
            return {"mechanism": str(file.path), "digest": file.text_digest, **chain}

    def explain(self, *, whole: bool = False) -> Explanation:
        """Return what was derived: pieces, branches, atoms, closed or numeric and why, claim.

        Prints as text, and as LaTeX or HTML in notebooks. Imports sympy.

        Args:
            whole: with formulas that fill a screen too, as those of high cumulants.
        """
        from mechc.report.explain import explain

        return explain(self.declaration, whole=as_flag("whole", whole))

    def report(
        self, path: str | os.PathLike[str], *, certificate: str = "quick", **values: float
    ) -> Path:
        """Write a datasheet as one HTML file (optional extra `report`).

        It shows claim, assumptions and certificate, parameters, figures, derivation and kernel
        source, and needs no network.

        Args:
            path: file to write.
            certificate: how the kernel is verified for it, where python-flint is installed:
                "quick", "full" or "none".
            values: parameters for the figures; typical ones by default.

        Returns:
            The path written.

        Raises:
            DeclarationError: a parameter is unknown or out of its domain, or the file is no HTML.
            UnsupportedError: jinja2 or matplotlib is not installed.
            CacheError: the file cannot be written.
        """
        from mechc.report.datasheet import check, report

        path = inputs.as_path(path)
        check(path)
        return build.write_atomically(path, report(self, values, certificate))

    def verify(self, level: str = "quick", *, again: bool = False) -> Certificate:
        """Verify the kernel against the declaration in ball arithmetic (needs python-flint).

        Args:
            level: "quick" or "full", see `mechc.verify.certificate.verify`.
            again: verify anew where a certificate of this very kernel has been kept.

        Returns:
            The certificate: `.ok`, `.checks`, `.max_rel_error`, `.to_json()`.
        """
        from mechc.verify.certificate import verify

        return verify(self, level, again=as_flag("again", again))

    @cached_property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """The parameters in kernel order, with domains and defaults."""
        if self._behind is not None:
            return (*self._behind.parameters, *ENDS.values())
        known = self.kernel.PARAMETERS[: -1 if TAG in self.kernel.CAPABILITIES else None]
        return tuple(ParameterInfo(*p) for p in known)

    @property
    def declared(self) -> tuple[ParameterInfo, ...]:
        """The same without compiling anything, by the declaration where there is no kernel yet."""
        if self.is_compiled:
            return self.parameters
        open_to_users = self.declaration.parameters[: -1 if self.declaration.tag else None]
        return tuple(ParameterInfo(*p.info) for p in open_to_users)

    def check(self, values: Mapping[str, Any], missing: str | None = "") -> None:
        """Refuse parameters before anything is compiled; `missing` may be missing, if None any."""
        if self.is_compiled:  # then calling it costs nothing
            return
        from mechc.calculus.claims import claim_of

        known = [*self.declared]
        names = {p.name for p in known}
        if missing != "" and values.keys() <= names:
            needed = names - {missing} if missing in names else set(values)
            known = [p for p in known if p.name in needed or p.name in values]
        try:
            inputs.bind(self.name, known, values)
        except DeclarationError:
            inputs.bind(self.name, known, values, claim_of(self.declaration).assumptions)

    @cached_property
    def claim(self) -> Claim:
        """What the pair dominates and why: status, theorem, adjacency, conditions, assumptions."""
        if self._behind is not None:
            base = self._behind.claim
            said = f"the base pair dominates ({base.status}, {base.theorem or 'by assertion'})"
            checked = (said, *base.conditions, "post-processing gives the pair back")
            return replace(base, theorem="T9", conditions=checked)
        record = self.kernel.CLAIM
        try:
            found = Claim(**record) if record else NO_CLAIM
        except TypeError:
            raise DeclarationError(f"{self.name}: CLAIM={record!r} is not a claim") from None
        if isinstance(self.origin, build.LoadedKernel):  # there is nothing to derive it from
            return replace(found, status="declared", assumptions=(*found.assumptions, OF_A_FILE))
        return found

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that the pair is for."""
        return self.claim.adjacency

    @property
    def noise(self) -> Noise:
        """The noise it adds; its questions take the open parameters by name (`Event.noise`).

        Raises:
            UnsupportedError: the mechanism is not declared as additive noise.
        """
        from mechc.composition.queries.noise import Noise

        return Noise(self)

    @property
    def references(self) -> tuple[str, ...]:
        """Keys of the literature that the mechanism names."""
        return self._behind.references if self._behind else tuple(self.kernel.REFS)

    @cached_property
    def symmetric(self) -> bool:
        """Whether the add direction is the mirror image of remove, proved when compiling."""
        if self._behind is not None:
            return False
        return bool(self.kernel.SYMMETRIC) and self.reverse_kernel is None

    upper_only = ""

    @cached_property
    def rates(self) -> tuple[str, ...]:
        """Names of the parameters that are sampling rates."""
        return steps.rates(self.transforms)

    @cached_property
    def _names(self) -> frozenset[str]:
        """Names of the parameters."""
        return frozenset(p.name for p in self.parameters)

    @cached_property
    def _hides_a_rate(self) -> bool:
        """Whether a parameter has the name that the rate of one more sample would have."""
        return bool(self.rates) and Sample().added(self.transforms) in self._names

    def unsampled(self, theta: tuple[float, ...]) -> Event | None:
        """The event on all records, where the last transformation is a sample that keeps them all.

        At a rate of 1 the kernel of the sample has branches on which one law has no mass.
        """
        if theta[-1:] != (1.0,):  # the rate is the last parameter
            return None
        last = self.transforms[-1] if self.transforms else None
        if not isinstance(last, Sample):
            return None
        whole = Mechanism(self.origin, self.transforms[:-1])
        values = dict(zip((p.name for p in self.parameters), theta, strict=True))
        if last == steps.Poisson(Adjacency.REPLACE):  # both shifts, and no middle
            moved = whole.stretched_by
            if not moved or not 2.0 * values[moved] < math.inf:
                return None
            values[moved] *= 2.0
            return Event(whole, tuple(values[p.name] for p in whole.parameters))
        if [*(p.name for p in whole.parameters), self.parameters[-1].name] != [*values]:
            return None
        return Event(whole, theta[:-1])

    def __call__(self, *unnamed: Any, **values: Any) -> Event:
        """Bind all parameters; defaults fill the rest.

        Args:
            *unnamed: refused, since a mechanism has parameters of its own order.
            **values: the parameters.

        Raises:
            DeclarationError: a parameter is unknown, missing, bound already, out of its domain or
                without its name.
        """
        if unnamed:
            known = ", ".join(p.name for p in self.declaration.parameters)
            raise DeclarationError(
                f"{self.name}: {unnamed[0]!r} has no name (expected keywords: {known})"
            )
        lists, values = inputs.without_lists(self.name, values)
        if lists and OfLength(lists) not in self.transforms:
            others = tuple(t for t in self.transforms if not isinstance(t, OfLength))
            return Mechanism(self.origin, (OfLength(lists), *others), self.bound)(**values)
        self.check({**self.bound, **values})
        if self._hides_a_rate:
            raise DeclarationError(
                f"{self.name}: rename the parameter {Sample.adds} of {self.origin.name}"
            )
        if self.bound:
            for name in values:
                if name in self.bound:
                    held = inputs.shown(self.bound[name])
                    raise DeclarationError(
                        f"{self.name}: {name} is bound to {held} already (expected "
                        f"it open{', as by mechc.poisson(mechanism)' * (name in self.rates)})"
                    )
            values = {**self.bound, **values}
        theta = inputs.bind(self.name, self.parameters, values, self.claim.assumptions)
        return Event(self, theta, self._names.difference(values))

    def bind(self, **values: Any) -> Mechanism:
        """Return this mechanism with some parameters fixed and the others still open.

        Args:
            values: numbers by name, each in the domain of its parameter.

        Raises:
            DeclarationError: a parameter is unknown, bound already or out of its domain.
        """
        named = {p.name: p for p in self.parameters}
        for name in values:
            if name not in named or name in self.bound:
                listed = ", ".join(n for n in named if n not in self.bound) or "none"
                raise DeclarationError(f"{self.name}: {name} is not open (open: {listed})")
        given = {name: inputs.check(self.name, named[name], v) for name, v in values.items()}
        return Mechanism(self.origin, self.transforms, {**self.bound, **given})

    def transformed(self, step: Transform, added: float | None = None, **bound: float) -> Mechanism:
        """Return this mechanism after one more transformation."""
        if added is not None:
            bound[step.added(self.transforms)] = added
        return Mechanism(self.origin, (*self.transforms, step), {**self.bound, **bound})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what defines the mechanism; another process loads its kernel from the cache."""
        return Mechanism, (self.origin, self.transforms, self.bound)

    def _no_event(self, other: Any) -> Any:
        """Refuse to compose what is not yet called with its parameters."""
        raise DeclarationError(
            f"{self!r} with {other!r}: only events are composed (expected {self._call()}, a "
            "mechanism called with its parameters)"
        )

    def _call(self) -> str:
        """How it is called with its parameters."""
        missing = (p for p in self.parameters if p.default is None and p.name not in self.bound)
        return f"{self.name}({', '.join(f'{p.name}=...' for p in missing)})"

    def __getattr__(self, name: str) -> Any:
        """Refuse what there is not, with what was meant."""
        there = getattr(type(self), name, None)
        if isinstance(there, (property, cached_property)):
            return there.__get__(self)  # what failed inside it says why
        hint = of_package(name)
        if name[:1] != "_":
            hint = hint or suggestion(name, dir(type(self)), QUESTIONS)
            if hasattr(Event, name):
                hint = f"; it is asked of {self._call()}, called with its parameters"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    __add__ = __radd__ = __mul__ = __rmul__ = _no_event

    def __repr__(self) -> str:
        """Show the name and bound parameters."""
        bound = "".join(f", {n}={inputs.shown(v)}" for n, v in self.bound.items())
        return f"<mechanism {self.name}{bound}>"

    def _repr_html_(self) -> str:
        """Show the explanation in notebooks."""
        return self.explain()._repr_html_()


class WithoutKernel(Mechanism):
    """A mechanism made of a `base`, whose parameters are open, and `numbers`; it has no kernel."""

    what: ClassVar[str]
    """What has no kernel, for messages."""

    inside: ClassVar[str]
    """What to transform instead, for messages."""

    def __init__(self, base: Mechanism, *numbers: int) -> None:
        """Hold the mechanism and the numbers; users call a function instead."""
        self.base, self.numbers = base, numbers
        self.bound, self.transforms = dict(base.bound), ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the mechanism and the numbers."""
        return type(self), (self.base, *self.numbers)

    def bind(self, **values: Any) -> Mechanism:
        """Return this with some parameters fixed and the others still open."""
        return type(self)(self.base.bind(**values), *self.numbers)

    @cached_property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """The parameters of the mechanism inside."""
        return self.base.parameters

    @property
    def origin(self) -> Any:
        """Refuse: there is no kernel."""
        raise UnsupportedError(
            f"{self.name}: {self.what} has no kernel of its own; call it with its parameters, and "
            f"sample or compose the event, or transform the {self.inside}"
        )

    def _repr_html_(self) -> str:
        """Show its name and what it bounds in notebooks."""
        return html.escape(f"{self!r}: {self.claim}")

    @cached_property
    def key(self) -> str:
        """What identifies the mechanism."""
        return f"{type(self).__name__} {self.numbers} {self.base.key}"


@public
def load(what: Any) -> Mechanism:
    """Return a mechanism.

    Args:
        what: the name of a mechanism (`mechc.available()`), the path of a mechanism file, a
            Declaration, or a loaded kernel module.

    Raises:
        DeclarationError: no such mechanism, or the file cannot be read as one.
    """
    return what if isinstance(what, Mechanism) else Mechanism(build.origin(what))


def built_in(name: str) -> Mechanism:
    """The mechanism of that name that theorems here are about, whatever MECHC_PATH has."""
    return Mechanism(catalog.built_in(name))


@public
def available() -> tuple[str, ...]:
    """Return the names of the mechanisms that `load` finds."""
    return catalog.available()
