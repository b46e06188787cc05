"""SIMD addition of eight numbers: the strokes are too short for the compiler to vectorize on its own."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import create_struct_proxy
from numba.extending import intrinsic

VECTOR = 8


@intrinsic
def add_vector(typing_context: Any, array: Any, at: Any, factor: Any, other: Any, begin: Any) -> Any:  # noqa: ARG001
    """array[at : at + 8] += factor · other[begin : begin + 8], positions being those in memory; all float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.FloatType(), VECTOR)

        def place(position: int) -> Any:
            values = create_struct_proxy(signature.args[position])(context, builder, arguments[position]).data
            return builder.bitcast(builder.gep(values, [arguments[position + 1]]), kind.as_pointer())

        target, source = place(0), place(3)
        factors = ir.Constant(kind, ir.Undefined)
        for lane in range(VECTOR):
            factors = builder.insert_element(factors, arguments[2], ir.Constant(ir.IntType(32), lane))
        added = builder.fmul(builder.load(source, align=4), factors)
        builder.store(builder.fadd(builder.load(target, align=4), added), target, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.float32, other, types.intp), generate
