"""Sixty-four bytes in one go, for compiled functions: importing this needs numba.

Places are addresses in memory; `PAD` bytes beyond what is read have to be there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features

from kit.compiled import inner, numba_types

types = numba_types()
PAD = 64
BYTE, WORD, BITS, MANY = ir.IntType(8), ir.IntType(64), ir.VectorType(ir.IntType(1), PAD), ir.VectorType(ir.IntType(8), PAD)


def _intrinsic(signature: Any, generate: Callable) -> Any:
    """A function of compiled code that is made of LLVM's instructions."""
    from numba.extending import intrinsic

    def typed(context: Any, *arguments: Any) -> Any:
        return signature, lambda _, builder, __, given: generate(builder, *given)

    names = ", ".join(f"a{n}" for n in range(len(signature.args)))
    scope: dict = {"typed": typed}
    exec(f"def made(context, {names}): return typed(context, {names})", scope)  # noqa: S102 numba asks for names, not *arguments
    return intrinsic(scope["made"])


def _load(kind: ir.Type) -> Callable:
    """Read a value at an address."""
    return lambda builder, at: builder.load(builder.inttoptr(at, ir.PointerType(kind)), align=1)


def _store(builder: Any, value: Any, at: Any) -> Any:
    builder.store(value, builder.inttoptr(at, ir.PointerType(value.type)), align=1)
    return ir.Constant(WORD, 0)


def among(*ranges: tuple[int, int]) -> Any:
    """A function that tells which of the sixty-four bytes at an address are in some ranges: the lowest bit is the first byte."""

    def every(byte: int) -> ir.Constant:
        return ir.Constant(MANY, [byte] * PAD)

    def generate(builder: Any, at: Any) -> Any:
        values, found = _load(MANY)(builder, at), None
        for low, high in ranges:
            inside = builder.icmp_unsigned("<=", builder.sub(values, every(low)), every(high - low))
            found = inside if found is None else builder.or_(found, inside)
        return builder.bitcast(found, WORD)

    return _intrinsic(types.int64(types.int64), generate)


def _copy(builder: Any, source: Any, target: Any) -> Any:
    return _store(builder, _load(ir.VectorType(BYTE, 32))(builder, source), target)


def _differ(builder: Any, one: Any, other: Any) -> Any:
    return builder.bitcast(builder.icmp_unsigned("!=", _load(MANY)(builder, one), _load(MANY)(builder, other)), WORD)


def _equal(builder: Any, at: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(MANY, ir.Undefined), builder.trunc(value, BYTE), ir.Constant(ir.IntType(32), 0))
    every = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), PAD), [0] * PAD))
    return builder.bitcast(builder.icmp_unsigned("==", _load(MANY)(builder, at), every), WORD)


def _pressed(builder: Any, source: Any, bits: Any, target: Any) -> Any:
    kind = ir.FunctionType(MANY, [MANY, MANY, BITS])
    press = builder.module.globals.get(PRESS) or ir.Function(builder.module, kind, PRESS)
    pressed = builder.call(press, [_load(MANY)(builder, source), ir.Constant(MANY, None), builder.bitcast(bits, BITS)])
    return _store(builder, pressed, target)


byte_at = _intrinsic(types.int64(types.int64), lambda builder, at: builder.zext(_load(BYTE)(builder, at), WORD))
word_at = _intrinsic(types.int64(types.int64), _load(WORD))
"""Eight bytes as a number, the first in its lowest bits."""
put_byte = _intrinsic(
    types.int64(types.int64, types.int64), lambda builder, value, at: _store(builder, builder.trunc(value, BYTE), at)
)
copy_32 = _intrinsic(types.int64(types.int64, types.int64), _copy)
"""Copy 32 bytes from one address to another."""
differ = _intrinsic(types.int64(types.int64, types.int64), _differ)
"""Which of the sixty-four bytes at two addresses are not the same."""
equal = _intrinsic(types.int64(types.int64, types.int64), _equal)
"""Which of the sixty-four bytes at an address are a byte."""
lowest = _intrinsic(types.int64(types.int64), lambda builder, bits: builder.cttz(bits, ir.Constant(ir.IntType(1), 0)))
"""Number of the lowest bit that is set; 64 where none is."""
count_bits = _intrinsic(types.int64(types.int64), lambda builder, bits: builder.ctpop(bits))
PRESS = "llvm.x86.avx512.mask.compress.v64i8"
press_64 = _intrinsic(types.int64(types.int64, types.int64, types.int64), _pressed)
PRESSES = get_host_cpu_features().get("avx512vbmi2", False)
"""Whether the processor puts chosen ones of sixty-four bytes one behind the other (`press_64`)."""


@inner
def copy(source, target, size):
    """Copy a text, and up to thirty-one bytes behind it."""
    while True:
        copy_32(source, target)
        if size <= 32:
            break
        source, target, size = source + 32, target + 32, size - 32


@inner
def press(source, bits, target):
    """Write those of sixty-four bytes whose bits are set one behind the other; up to sixty-four bytes are written."""
    if PRESSES:
        press_64(source, bits, target)
        return
    while bits:
        put_byte(byte_at(source + lowest(bits)), target)
        bits, target = bits & (bits - 1), target + 1


@inner
def below(count):
    """The lowest bits, up to all sixty-four."""
    return -1 if count >= 64 else (1 << count) - 1


@inner
def nth(bits, number):
    """Which bit is that of a number, from 1, among those that are set."""
    for _ in range(number - 1):
        bits &= bits - 1
    return lowest(bits)


HIGH = among((127, 255))


@inner
def is_ascii(base, at, end):
    """Whether bytes are below 127."""
    while at < end:
        if HIGH(base + at) & below(end - at):
            return False
        at += PAD
    return True
