"""What numba does for our functions, and what it may leave out: its usual work, at half the cost.

All of ours are loops over numbers in arrays that callers made. So nothing counts
references to arrays; the passes for closures, inlining by name, array expressions and types that a
literal chooses find nothing; and an operator between numbers, or an array under an integer, has the
same types each time: numba tries up to 18 templates for each subscript of each function, here the
first answer is remembered. What is computed is the same.
"""

# mypy: disable-error-code="misc, no-untyped-call, attr-defined"

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numba
from numba.core import compiler, types
from numba.core.compiler_machinery import PassManager
from numba.core.typing import Context

LEFT_OUT = frozenset(
    {
        "WithLifting", "InlineClosureLikes", "RewriteDynamicRaises", "MakeFunctionToJitFunction",
        "InlineInlinables", "DeadBranchPrune", "FindLiterallyCalls", "LiteralUnroll",
        "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites",
        "DumpParforDiagnostics",
    }
)  # fmt: skip
"""Passes of numba by name; one that a version does not have is not missed."""


def njit(signatures: Any, *, allocates: bool = False, **options: Any) -> Callable[[Any], Any]:
    """`numba.njit` through the short pipeline.

    Args:
        signatures: types in numba's notation; None for those of the calls.
        allocates: whether the function makes arrays, which are then counted and freed.
        options: of `numba.njit`.
    """
    numbas: Any = numba.njit
    made: Callable[[Any], Any] = numbas(
        signatures, _nrt=allocates, pipeline_class=Pipeline, **options
    )
    return made


PLAIN = types.Number, types.Boolean, types.Array


class Options(compiler.Flags):
    """Numba's options of one compilation, compared as they were set (numba makes a list of 40)."""

    def __hash__(self) -> int:
        """Digest of what was set."""
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        """Whether the same was set to the same."""
        return isinstance(other, Options) and self._values == other._values


class Typing(Context):
    """Numba's own types of functions, and a memory for those of operators."""

    operators: ClassVar[dict[Any, Any]] = {}

    def __init__(self, context: Context) -> None:
        """Share everything that is known with the context that numba has."""
        self.__dict__ = context.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the types of a call, remembered where machine code of numba's own is meant."""
        plain = func is bool or getattr(func, "__module__", None) == "_operator"
        if kws or not plain or not all(isinstance(arg, PLAIN) for arg in args):
            return super().resolve_function_type(func, args, kws)
        if (func, args) not in self.operators:
            self.operators[func, args] = super().resolve_function_type(func, args, kws)
        return self.operators[func, args]


_typing = functools.cache(Typing)  # one for each context: numba's memory goes by what asks


class Pipeline(compiler.CompilerBase):
    """Numba's passes without those that find nothing in our functions."""

    def __init__(self, typingctx: Context, *arguments: Any) -> None:
        """Begin one compilation."""
        super().__init__(_typing(typingctx), *arguments)
        self.state.flags = Options(self.state.flags)

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes."""
        usual = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        usual.passes = [p for p in usual.passes if p[0].__name__ not in LEFT_OUT]
        usual.finalize()
        return [usual]
