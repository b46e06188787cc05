"""Matrix products of float32, as LLVM instructions: a tile of the result stays in registers, and every sum has a fixed order.

OpenBLAS, called from Numba, is slower for our shapes (68 against 107 GFLOP/s for 64×256×128 on one core), and has its own threads.
"""

# Numba passes the first argument of an intrinsic, and sets its options when it is imported.
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import platform
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from remanence.agents.native.support import LANES
from remanence.core.native.compiling import kernel

K_BLOCK = 128  # rows of the right factor at a time: they stay in the first-level cache
_FLOAT, _INT = ir.FloatType(), ir.IntType(64)


def _cpu_features() -> dict[str, bool]:
    """What Numba compiles for: this processor, unless the user chose another one."""
    if config.CPU_FEATURES is not None or config.CPU_NAME is not None:
        return {name.strip("+ "): name.strip().startswith("+") for name in (config.CPU_FEATURES or "").split(",")}
    return dict(llvm.get_host_cpu_features())


_FEATURES = _cpu_features()
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
WIDTH = 16 if _FEATURES.get("avx512f") else 8  # floats of a vector
HAS_FMA = not IS_X86 or bool(_FEATURES.get("fma"))


def _make_tile(rows: int, vectors: int) -> Any:
    """C[rows, vectors · WIDTH] (+)= A[rows, k] @ B[k, vectors · WIDTH]. A has any strides; rows of B and C are contiguous."""
    vector = ir.VectorType(_FLOAT, WIDTH)

    @intrinsic
    def tile(
        typingctx: Any, a: Any, row: Any, column: Any, b: Any, ldb: Any, c: Any, ldc: Any, k: Any, add: Any
    ) -> Any:
        del typingctx, a, row, column, b, ldb, c, ldc, k, add

        def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
            a, row, column, b, ldb, c, ldc, k, add = args
            pa, pb, pc = (builder.inttoptr(address, _FLOAT.as_pointer()) for address in (a, b, c))

            def vector_at(start: Any, place: Any) -> Any:
                return builder.bitcast(builder.gep(start, [place]), vector.as_pointer())

            def load(start: Any, place: Any) -> Any:
                loaded = builder.load(vector_at(start, place))
                loaded.align = 4
                return loaded

            def multiply_add(x: Any, y: Any, z: Any) -> Any:
                if not HAS_FMA:
                    return builder.fadd(builder.fmul(x, y), z)
                kind = ir.FunctionType(vector, [vector] * 3)
                return builder.call(
                    cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{WIDTH}f32"), [x, y, z]
                )

            def in_c(i: int, j: int) -> Any:
                return builder.add(builder.mul(_INT(i), ldc), _INT(j * WIDTH))

            entry = builder.block
            more, loop, done = (builder.append_basic_block(name) for name in ("more", "loop", "done"))
            builder.cbranch(builder.icmp_signed("!=", add, _INT(0)), more, loop)
            builder.position_at_end(more)
            before = [load(pc, in_c(i, j)) for i in range(rows) for j in range(vectors)]
            builder.branch(loop)
            builder.position_at_end(loop)
            at = builder.phi(_INT)
            sums = [builder.phi(vector) for _ in before]
            zero = ir.Constant(vector, [0.0] * WIDTH)
            for block, values in ((entry, [zero] * len(sums)), (more, before)):
                at.add_incoming(_INT(0), block)
                for total, value in zip(sums, values, strict=True):
                    total.add_incoming(value, block)
            here = builder.gep(pb, [builder.mul(at, ldb)])
            of_b = [load(here, _INT(j * WIDTH)) for j in range(vectors)]
            new = []
            for i in range(rows):
                place = builder.add(builder.mul(at, column), builder.mul(_INT(i), row))
                one = builder.load(builder.gep(pa, [place]))
                undefined = ir.Constant(vector, ir.Undefined)
                spread = builder.insert_element(undefined, one, ir.Constant(ir.IntType(32), 0))
                everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
                spread = builder.shuffle_vector(spread, undefined, everywhere)
                new += [multiply_add(spread, of_b[j], sums[i * vectors + j]) for j in range(vectors)]
            following = builder.add(at, _INT(1))
            at.add_incoming(following, builder.block)
            for total, value in zip(sums, new, strict=True):
                total.add_incoming(value, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, k), loop, done)
            builder.position_at_end(done)
            for n, value in enumerate(new):
                builder.store(value, vector_at(pc, in_c(*divmod(n, vectors)))).align = 4
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), codegen

    return tile


_NARROW = LANES // WIDTH
_WIDE = 4 if WIDTH == 16 else 2  # 16 registers of 32, or 8 of 16, hold the tile
_COLUMNS = _WIDE * WIDTH
_wide4, _wide1 = _make_tile(4, _WIDE), _make_tile(1, _WIDE)
_narrow4, _narrow1 = _make_tile(4, _NARROW), _make_tile(1, _NARROW)


@kernel
def product(a, row, column, b, ldb, c, ldc, m, n, k):
    """C[m, n] = A[m, k] @ B[k, n], at addresses; strides in elements, A[i, j] at i · row + j · column. n: a multiple of LANES."""
    for start in range(0, k, K_BLOCK):
        depth, add = min(K_BLOCK, k - start), start > 0
        a0, b0 = a + 4 * start * column, b + 4 * start * ldb
        j = 0
        while j + _COLUMNS <= n:
            i = 0
            while i + 4 <= m:
                _wide4(a0 + 4 * i * row, row, column, b0 + 4 * j, ldb, c + 4 * (i * ldc + j), ldc, depth, add)
                i += 4
            while i < m:
                _wide1(a0 + 4 * i * row, row, column, b0 + 4 * j, ldb, c + 4 * (i * ldc + j), ldc, depth, add)
                i += 1
            j += _COLUMNS
        while j < n:
            i = 0
            while i + 4 <= m:
                _narrow4(a0 + 4 * i * row, row, column, b0 + 4 * j, ldb, c + 4 * (i * ldc + j), ldc, depth, add)
                i += 4
            while i < m:
                _narrow1(a0 + 4 * i * row, row, column, b0 + 4 * j, ldb, c + 4 * (i * ldc + j), ldc, depth, add)
                i += 1
            j += LANES


@intrinsic
def _transpose_block(typingctx: Any, a: Any, lda: Any, b: Any, ldb: Any) -> Any:
    """B = Aᵀ for WIDTH × WIDTH floats, in registers."""
    del typingctx, a, lda, b, ldb

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, lda, b, ldb = args
        vector, numbers = ir.VectorType(_FLOAT, WIDTH), ir.VectorType(ir.IntType(32), WIDTH)
        pa, pb = (builder.inttoptr(address, _FLOAT.as_pointer()) for address in (a, b))

        def row(start: Any, ld: Any, i: int) -> Any:
            return builder.bitcast(builder.gep(start, [builder.mul(_INT(i), ld)]), vector.as_pointer())

        rows = []
        for i in range(WIDTH):
            loaded = builder.load(row(pa, lda, i))
            loaded.align = 4
            rows.append(loaded)
        half = WIDTH // 2
        while half:  # swaps the off-diagonal blocks of ever smaller squares
            low = [n if not n & half else WIDTH + n - half for n in range(WIDTH)]
            high = [n + half if not n & half else WIDTH + n for n in range(WIDTH)]
            for i in range(WIDTH):
                if not i & half:
                    pair = rows[i], rows[i + half]
                    rows[i] = builder.shuffle_vector(*pair, ir.Constant(numbers, low))
                    rows[i + half] = builder.shuffle_vector(*pair, ir.Constant(numbers, high))
            half //= 2
        for i, value in enumerate(rows):
            builder.store(value, row(pb, ldb, i)).align = 4
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@kernel
def transpose(a, lda, b, ldb, m, n):
    """B[n, m] = A[m, n]ᵀ, at addresses; both have room for multiples of LANES rows and columns, which are read and written."""
    for i in range(0, m, WIDTH):
        for j in range(0, n, WIDTH):
            _transpose_block(a + 4 * (i * lda + j), lda, b + 4 * (j * ldb + i), ldb)


def _make_add(count: int) -> Any:
    """to[:count] += other[:count]"""

    @intrinsic
    def add(typingctx: Any, to: Any, other: Any) -> Any:
        del typingctx, to, other

        def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
            vector = ir.VectorType(_FLOAT, count).as_pointer()
            first, second = (builder.inttoptr(address, vector) for address in args)
            a, b = builder.load(first), builder.load(second)
            a.align = b.align = 4
            builder.store(builder.fadd(a, b), first).align = 4
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return add


_add16, _add8, _add1 = _make_add(16), _make_add(8), _make_add(1)


@kernel
def add_to(to, other, n):
    """to[:n] += other[:n], at addresses. For short runs, where a loop would cost more than the additions."""
    i = 0
    while i + 16 <= n:
        _add16(to + 4 * i, other + 4 * i)
        i += 16
    if i + 8 <= n:
        _add8(to + 4 * i, other + 4 * i)
        i += 8
    while i < n:
        _add1(to + 4 * i, other + 4 * i)
        i += 1


@intrinsic
def _swap_mxcsr(typingctx: Any, new: Any) -> Any:
    """Sets x86's floating point control register; -> what it was."""
    del typingctx, new

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        del context
        number, bytes_at = ir.IntType(32), ir.IntType(8).as_pointer()
        slot = cgutils.alloca_once(builder, number)
        place = builder.bitcast(slot, bytes_at)
        kind = ir.FunctionType(ir.VoidType(), [bytes_at])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.stmxcsr"), [place])
        old = builder.load(slot)
        builder.store(args[0], slot)
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.ldmxcsr"), [place])
        return old

    return types.int32(types.int32), codegen


if IS_X86:

    @kernel
    def flush_denormals():
        """Numbers too small for full precision count as 0: they are many times slower. -> what `restore_denormals` needs."""
        return _swap_mxcsr(0x9FC0)

    @kernel
    def restore_denormals(before):
        _swap_mxcsr(before)

else:

    @kernel
    def flush_denormals():
        return 0

    @kernel
    def restore_denormals(before):
        pass
