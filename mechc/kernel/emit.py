"""KernelIR module in, the text of one Python module out.

The text holds only the statements of `statements`, in the form that `protocol` describes: header,
constants, prelude, kernels, self-check, seal. Equal modules give equal text; `DIGEST` is a digest
of all of it, versions included.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterator, Sequence
from importlib import metadata

from mechc.errors import InternalError
from mechc.kernel import ir
from mechc.kernel.parts import Module
from mechc.kernel.passes import share
from mechc.kernel.prelude import closure
from mechc.kernel.printer import literal
from mechc.kernel.protocol import PROTOCOL
from mechc.kernel.seal import MARK, seal
from mechc.kernel.selfcheck import self_check_text
from mechc.kernel.statements import IMPORTS, commentary, refusal
from mechc.kernel.writer import WIDTH, Writer, jitted


def emit(module: Module) -> str:
    """Write a kernel module.

    Args:
        module: in printable form.

    Returns:
        The source text. Running it as a script checks it against its reference values.

    Raises:
        InternalError: the text would hold other statements than a kernel does.
    """
    writer = Writer(module)
    kernels = list(writer.kernels())
    prelude = [jitted(p.signature, p.source) for p in closure(writer.used())]
    parts = [*prelude, *kernels, self_check_text(module.checks)]
    body = "\n\n\n".join(parts)
    header, constants = _header(module), _constants(module)
    digest = _digest(header, constants, body)
    text = f'{header}\n\n{IMPORTS}\n\nDIGEST = "{digest}"\n{constants}\n\n\n{body}\n'
    stranger = refusal(text)
    if stranger is not None:
        raise InternalError(f"{module.name}: the emitted text is no kernel: {stranger}")
    return seal(text)


def digest_of(text: str) -> str:
    """Return what `DIGEST` of an emitted text has to be.

    Args:
        text: of a module, sealed.
    """
    header, _, rest = text.rpartition(MARK)[0].partition(f"\n\n{IMPORTS}\n\nDIGEST = ")
    constants, _, body = rest.partition("\n")[2].partition("\n\n\n")
    return _digest(header, constants, body.removesuffix("\n"))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _header(module: Module) -> str:
    """The module docstring: what this is, its formulas, versions and cost."""
    operations = sum(ir.count_operations(share(f.body)) for f in module.functions)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("mechc", "sympy"))
    lines = [
        f"{module.name}: {module.about or 'a pair (P, Q).'}",
        "",
        f"Emitted by {versions}, kernel protocol {PROTOCOL}; do not edit.",
        f"Operations in the scalar functions: {operations}.",
        "",
        *_wrapped(module.formulas),
    ]
    return "\n".join(['"""' + "\n".join(map(commentary, lines)), '"""'])


def _wrapped(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        indentation = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(line, WIDTH, subsequent_indent=indentation)


def _constants(module: Module) -> str:
    values = {
        "PROTOCOL": PROTOCOL,
        "NAME": module.name,
        "MEASURE": module.measure,
        "SYMMETRIC": module.symmetric,
        "BRANCHES": module.branches,
        "CAPABILITIES": module.capabilities,
        "CLAIM": module.claim,
        "REFS": module.refs,
        "ABOUT": module.about,
    }
    lines = [f"{name} = {_pretty(value)}" for name, value in values.items()]
    lines.insert(4, "# name, lo, hi, lo open, hi open, integer, default, typical range")
    lines.insert(5, _parameters(module))
    return "\n".join(lines)


def _pretty(value: object, indentation: int = 0) -> str:
    """A constant as text: one line if it fits, otherwise one entry a line."""
    if isinstance(value, dict):
        entries = [f"{_pretty(k)}: {_pretty(v, indentation + 4)}" for k, v in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, tuple):
        entries = [_pretty(v, indentation + 4) for v in value]
        opening, closing = "(", ",)" if len(value) == 1 else ")"
    else:
        return json.dumps(value) if isinstance(value, str) else repr(value)
    line = f"{opening}{', '.join(entries)}{closing}"
    if len(line) + indentation < WIDTH - 20:
        return line
    inner = " " * (indentation + 4)
    lines = "".join(f"{inner}{entry},\n" for entry in entries)
    return f"{opening}\n{lines}{' ' * indentation}{closing[-1]}"


def _parameters(module: Module) -> str:
    rows = [f"    ({', '.join(map(_plain, row))})," for row in module.parameters]
    return "\n".join(["PARAMETERS = (", *rows, ")"])


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return literal(value)[0] if isinstance(value, float) else _pretty(value)
