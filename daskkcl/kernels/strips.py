"""Powers of products, a few rows and landmarks at a time, without memory in between.

A product by BLAS goes to memory and comes back for its powers, and of rows with few features BLAS multiplies at half of
what the processor can do. Here the sums of four rows and a strip of landmarks stay in registers until their powers are
taken. Loops that are written in Python are not compiled to that, so this one is written in the instructions of LLVM.

A value depends on its row and its landmark alone, not on the rows around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["ROWS", "WIDTH", "pack", "powers"]


def _lanes() -> int:
    """Return how many numbers of float32 a register has: 16 in one of 512 bits; 256 bits are put together elsewhere."""
    features = getattr(config, "CPU_FEATURES", None)  # users may set NUMBA_CPU_FEATURES
    wide = get_host_cpu_features().get("avx512f", False) if features is None else "+avx512f" in features
    return 16 if wide else 8


LANES = _lanes()
ROWS, VECTORS = 4, 3  # twelve sums, three landmarks' vectors and a row fill sixteen registers
WIDTH = VECTORS * LANES

_FLOAT, _SHORT, _LONG = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _SHORTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_SHORT, LANES)
_FUSED = ("contract",)  # a product and a sum in one instruction, where there is one

#: 2^f, |f| <= 1/2: least largest relative error (2e-9) of all polynomials of degree 6, highest power first
_COEFFICIENTS = (
    1.5345811872438517e-4,
    1.3399931217067396e-3,
    9.618488957578080e-3,
    5.550328776971304e-2,
    2.402264689062988e-1,
    6.931472057372652e-1,
    1.0,
)
_ROUNDING = 2.0**23 + 2.0**22 + 127  # added to a small number it leaves no fraction, and 127 more in the lowest bits


def pack(right: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of `right` (k, m) in strips (m / WIDTH rounded up, k, WIDTH), as `powers` reads them.

    The last strip ends with the last column and has some of the one before; fewer columns than one strip are padded.

    Examples
    --------
    >>> strips = pack(np.arange(2.0 * WIDTH + 2)[None].astype(np.float32))
    >>> strips.shape == (3, 1, WIDTH), int(strips[2, 0, 0]) == WIDTH + 2
    (True, True)
    """
    k, m = right.shape
    strips = np.zeros((-(-m // WIDTH), k, WIDTH), np.float32)
    for number, strip in enumerate(strips):
        first = max(0, min(number * WIDTH, m - WIDTH))
        strip[:, : min(m, WIDTH)] = right[:, first : first + WIDTH]
    return strips


def _all(value: float) -> ir.Constant:
    return ir.Constant(_FLOATS, [ir.Constant(_FLOAT, float(np.float32(value)))] * LANES)


def _power_of_two(build: Any, x: Any) -> Any:
    """2^x of a vector: 1 above zero, 0 below -127 and for NaN, which only what is far away gives.

    2^x = 2^k 2^f with k the nearest whole number; the factor 2^k is the exponent of a float32, written as bits.
    """
    x = build.select(build.fcmp_ordered(">", x, _all(-127.0)), x, _all(-127.0))
    x = build.select(build.fcmp_ordered("<", x, _all(0.0)), x, _all(0.0))
    rounded = build.fadd(x, _all(_ROUNDING))
    f = build.fsub(x, build.fsub(rounded, _all(_ROUNDING)))
    power = _all(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        power = build.fadd(build.fmul(power, f, flags=_FUSED), _all(coefficient), flags=_FUSED)
    bits = build.shl(build.bitcast(rounded, _SHORTS), ir.Constant(_SHORTS, [_SHORT(23)] * LANES))
    return build.fmul(power, build.bitcast(bits, _FLOATS))


def _spread(build: Any, number: Any) -> Any:
    """Return a vector of one number."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    first = build.insert_element(nothing, number, _SHORT(0))
    return build.shuffle_vector(first, nothing, ir.Constant(_SHORTS, [_SHORT(0)] * LANES))


def _pointer(build: Any, data: Any, place: Any) -> Any:
    return build.bitcast(build.gep(data, [place]), _FLOATS.as_pointer())


@intrinsic
def powers(typing: Any, left: Any, row: Any, n_rows: Any, strips: Any, strip: Any, out: Any, column: Any) -> Any:
    """``out[i, column + j] = 2^(left_i . strips[strip, :, j])`` of ROWS rows from `row` on, j < WIDTH.

    In place of rows from `n_rows` on the last one is done again. Arrays are of float32, in order, and `out` has at
    least WIDTH columns from `column` on.
    """
    place = types.intp
    signature = types.void(left, place, place, strips, place, out, place)

    def generate(context: Any, build: Any, signature: Any, given: Any) -> Any:
        arrays = {i: context.make_array(signature.args[i])(context, build, given[i]) for i in (0, 3, 5)}
        length = cgutils.unpack_tuple(build, arrays[0].shape)[1]
        columns = cgutils.unpack_tuple(build, arrays[5].shape)[1]
        _, row, n_rows, _, strip, _, column = given
        last = build.sub(n_rows, _LONG(1))
        rows = [build.add(row, _LONG(i)) for i in range(ROWS)]
        rows = [build.select(build.icmp_signed("<", i, last), i, last) for i in rows]
        begins = [build.gep(arrays[0].data, [build.mul(i, length)]) for i in rows]
        first = build.mul(strip, build.mul(length, _LONG(WIDTH)))

        before, loop, after = build.block, build.append_basic_block("features"), build.append_basic_block("powers")
        build.branch(loop)
        build.position_at_end(loop)
        k = build.phi(_LONG)
        k.add_incoming(_LONG(0), before)
        sums = [[build.phi(_FLOATS) for _ in range(VECTORS)] for _ in rows]
        here = _pointer(build, arrays[3].data, build.add(first, build.mul(k, _LONG(WIDTH))))
        landmarks = [build.load(build.gep(here, [_LONG(v)]), align=4) for v in range(VECTORS)]
        following = build.add(k, _LONG(1))
        k.add_incoming(following, loop)
        totals = []
        for begin, own in zip(begins, sums, strict=True):
            x = _spread(build, build.load(build.gep(begin, [k])))
            for total, y in zip(own, landmarks, strict=True):
                total.add_incoming(_all(0.0), before)
                totals.append(build.fadd(total, build.fmul(x, y, flags=_FUSED), flags=_FUSED))
                total.add_incoming(totals[-1], loop)
        build.cbranch(build.icmp_signed("<", following, length), loop, after)

        build.position_at_end(after)
        for number, total in enumerate(totals):
            i, v = divmod(number, VECTORS)
            place = build.add(build.mul(rows[i], columns), build.add(column, _LONG(v * LANES)))
            build.store(_power_of_two(build, total), _pointer(build, arrays[5].data, place), align=4)
        return context.get_dummy_value()

    return signature, generate
