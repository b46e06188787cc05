"""What XLA calls: handlers that find their arguments in memory and call the kernels. No Python runs in them.

A handler gets the address of a call frame (`core/hostcall.py` has its structures). Under `vmap` its buffers have leading axes.
"""

from __future__ import annotations

import numpy as np

from remanence.agents.native.compiling import handler, kernel
from remanence.agents.native.kernels import (
    ADAM,
    BIAS,
    BIAS_MU,
    BIAS_NU,
    COLUMNS,
    INPUTS,
    MU,
    NU,
    UNITS,
    WEIGHTS,
    backward,
    decode,
    forward,
)
from remanence.agents.native.memory import F4, I8, copy, floats, ints, longs, octets, padded, take
from remanence.agents.native.tiles import flush_denormals, restore_denormals
from remanence.core import hostcall

_EXTENSION, _INTERFACE = hostcall.Offsets.EXTENSION, hostcall.Offsets.INTERFACE
_ARGUMENTS, _RESULTS = hostcall.Offsets.ARGUMENTS, hostcall.Offsets.RESULTS
_DATA, _RANK, _DIMS = hostcall.Offsets.DATA, hostcall.Offsets.RANK, hostcall.Offsets.DIMS
_EXTENSION_TYPE, _METADATA = hostcall.Offsets.EXTENSION_TYPE, hostcall.Offsets.METADATA
_METADATA_VERSION, _INTERFACE_VERSION = hostcall.Offsets.METADATA_VERSION, hostcall.Offsets.INTERFACE_VERSION
_IS_METADATA = hostcall.METADATA

# The plan of a call: what is fixed when the program is compiled. After these come the inputs and the units of each layer.
(
    LAYERS,
    BATCH,
    CONSOLIDATES,  # whether this is a step of the permanent network, towards Q^P + Q^T of the stored visits
    OPTIMIZER,
    SLOTS,
    FRAMES,
    CHANNELS,  # bits of a pixel of a frame
    FRAME_BYTES,
    OUTPUTS_PER_HEAD,
    ONE_OUTPUT,  # whether actions select no output: prediction
    WIDE_OUTPUT,  # whether outputs are stored as 4 bytes, not 1
    IMPLICIT_NEXT,
    CACHED,
    HAS_TARGET,
    IMAGE,
) = range(15)
SIZES = IMAGE + 5

# Arguments of a step, before the networks.
(
    A_PLAN,
    A_NUMBERS,  # whether to learn, whether to copy to the target network, items overwritten in the ring
    A_RATES,  # learning rate, and Adam's second correction
    A_AGES,
    A_FRAME,
    A_NEXT_FRAME,
    A_BEFORE,
    A_CUT,
    A_OUTPUT,
    A_REWARD,
    A_DISCOUNT,
    A_CACHED,
    A_NEXT_CACHED,
    A_NETWORKS,
) = range(14)


@kernel
def _word(address):
    return longs(address, 1)[0]


@kernel
def _asks_for_version(frame):
    """On registration, XLA asks for our version of the interface; we return its own. -> whether this was such a call."""
    extension = _word(frame + _EXTENSION)
    if extension == 0 or ints(extension + _EXTENSION_TYPE, 1)[0] != _IS_METADATA:
        return False
    theirs = ints(_word(frame + _INTERFACE) + _INTERFACE_VERSION, 2)
    ours = ints(_word(extension + _METADATA) + _METADATA_VERSION, 2)
    ours[0], ours[1] = theirs[0], theirs[1]
    return True


@kernel
def _argument(frame, i):
    return _word(_word(frame + _ARGUMENTS) + 8 * i)


@kernel
def _result(frame, i):
    return _word(_word(frame + _RESULTS) + 8 * i)


@kernel
def _data(buffer):
    return _word(buffer + _DATA)


@kernel
def _dim(buffer, i):
    return _word(_word(buffer + _DIMS) + 8 * i)


@kernel
def _elements(buffer, first):
    """The number of elements along the axes from `first` on."""
    count = 1
    for i in range(first, _word(buffer + _RANK)):
        count *= _dim(buffer, i)
    return count


@kernel
def _of_lane(buffer, lane, lanes, size):
    """The address of a lane's part of a buffer with elements of `size` bytes."""
    return _data(buffer) + lane * (_elements(buffer, 0) // lanes) * size


@kernel
def _fill(net, buffers, first, lane, lanes, weights, bias):
    """Fills two columns of the table with addresses; weights and bias alternate among the buffers from `first` on."""
    for n in range(net.shape[0]):
        net[n, weights] = _of_lane(_word(buffers + 8 * (first + 2 * n)), lane, lanes, 4)
        net[n, bias] = _of_lane(_word(buffers + 8 * (first + 2 * n + 1)), lane, lanes, 4)


@kernel
def _activations(net, batch, stack):
    acts = np.empty(net.shape[0], I8)
    for n in range(net.shape[0]):
        acts[n] = take(stack, 4 * batch * padded(net[n, UNITS]))
    return acts


@kernel
def _read_inputs(plan, frame, lane, lanes, overwritten, inputs, idx, counts, next_idx, next_counts, slots, valid):
    """The bits of the sampled inputs and of the next ones: stacks of frames, as `agents/replay.py` reads them."""
    batch, total, frames, channels = plan[BATCH], plan[SLOTS], plan[FRAMES], plan[CHANNELS]
    stride, size = channels * frames, plan[FRAME_BYTES]
    ages = ints(_of_lane(_argument(frame, A_AGES), lane, lanes, 4), batch)
    now = _of_lane(_argument(frame, A_FRAME), lane, lanes, 1)
    then = _of_lane(_argument(frame, A_NEXT_FRAME), lane, lanes, 1)
    earlier = octets(_of_lane(_argument(frame, A_BEFORE), lane, lanes, 1), total)
    cut = octets(_of_lane(_argument(frame, A_CUT), lane, lanes, 1), total)
    for s in range(batch):
        age = ages[s]
        slot = (overwritten + age) % total
        slots[s], valid[s] = slot, 1
        bits, next_bits = ints(idx + 4 * s * inputs, inputs), ints(next_idx + 4 * s * inputs, inputs)
        n, oldest = 0, 0
        if frames > 1:
            before = earlier[slot]
            valid[s] = before <= age
            for back in range(frames - 1, 0, -1):
                if back <= before and back <= age:
                    place = now + ((slot - back) % total) * size
                    n = decode(place, size, channels, stride, (frames - 1 - back) * channels, bits, n)
                if back == frames - 1:
                    oldest = n
        n = decode(now + slot * size, size, channels, stride, (frames - 1) * channels, bits, n)
        counts[s] = n
        if plan[CONSOLIDATES]:
            continue
        m = 0
        if frames > 1:  # the next stack: the same frames but the oldest, one place earlier
            for k in range(oldest, n):
                next_bits[m] = bits[k] - channels
                m += 1
        following = now + ((slot + 1) % total) * size if plan[IMPLICIT_NEXT] else then + slot * size
        next_counts[s] = decode(following, size, channels, stride, (frames - 1) * channels, next_bits, m)
        if plan[IMPLICIT_NEXT] and cut[slot]:
            valid[s] = 0


@kernel
def _errors(plan, frame, lane, lanes, outputs, slots, valid, q, other_q, output, error):
    """The gradient of the loss with respect to the values of the actions taken (Algorithm 4, lines 10, 11 and 15, 16)."""
    batch, total, ld = plan[BATCH], plan[SLOTS], padded(outputs)
    stored = _of_lane(_argument(frame, A_OUTPUT), lane, lanes, 4 if plan[WIDE_OUTPUT] else 1)
    wide, narrow = ints(stored, total), octets(stored, total)
    reward = floats(_of_lane(_argument(frame, A_REWARD), lane, lanes, 4), total)
    discount = floats(_of_lane(_argument(frame, A_DISCOUNT), lane, lanes, 4), total)
    cached = _of_lane(_argument(frame, A_CACHED), lane, lanes, 4)
    next_cached = _of_lane(_argument(frame, A_NEXT_CACHED), lane, lanes, 4)
    values, others = floats(q, batch * ld), floats(other_q, batch * ld)
    for s in range(batch):
        slot = slots[s]
        a = 0 if plan[ONE_OUTPUT] else (wide[slot] if plan[WIDE_OUTPUT] else np.int32(narrow[slot]))
        known = F4(0)
        if plan[CONSOLIDATES]:
            target = reward[slot] + others[s * ld + a]
        else:
            head = a // plan[OUTPUTS_PER_HEAD] * plan[OUTPUTS_PER_HEAD]
            following = (slot + 1) % total if plan[IMPLICIT_NEXT] else slot
            of_next = floats(next_cached + 4 * following * outputs, outputs)
            best = F4(-np.inf)
            for b in range(head, head + plan[OUTPUTS_PER_HEAD]):
                best = max(best, others[s * ld + b] + (of_next[b] if plan[CACHED] else F4(0)))
            target = reward[slot] + discount[slot] * best
            if plan[CACHED]:
                known = floats(cached + 4 * slot * outputs, outputs)[a]
        output[s] = a
        error[s] = F4(-2) * (target - known - values[s * ld + a]) / F4(batch) if valid[s] else F4(0)


@kernel
def _step_lane(frame, lane, lanes, plan, net, other):
    """One update of one lane."""
    batch, inputs, last = plan[BATCH], net[0, INPUTS], net.shape[0] - 1
    rates = floats(_of_lane(_argument(frame, A_RATES), lane, lanes, 4), 2)
    numbers = ints(_of_lane(_argument(frame, A_NUMBERS), lane, lanes, 4), 3)
    networks = 3 if plan[OPTIMIZER] == ADAM else 1
    written = networks + (1 if plan[HAS_TARGET] and not plan[CONSOLIDATES] else 0)
    stack = np.empty(1, I8)
    stack[0] = _of_lane(_result(frame, 2 * net.shape[0] * written), lane, lanes, 1)
    idx, next_idx = take(stack, 4 * batch * inputs), take(stack, 4 * batch * inputs)
    counts, next_counts = ints(take(stack, 4 * batch), batch), ints(take(stack, 4 * batch), batch)
    slots, valid = ints(take(stack, 4 * batch), batch), ints(take(stack, 4 * batch), batch)
    output, error = ints(take(stack, 4 * batch), batch), floats(take(stack, 4 * batch), batch)
    _read_inputs(plan, frame, lane, lanes, numbers[2], inputs, idx, counts, next_idx, next_counts, slots, valid)
    image, acts, other_acts = plan[IMAGE:SIZES], _activations(net, batch, stack), _activations(other, batch, stack)
    if plan[CONSOLIDATES]:
        forward(other, image, idx, counts, batch, inputs, other_acts, stack)
    else:
        forward(other, image, next_idx, next_counts, batch, inputs, other_acts, stack)
    forward(net, image, idx, counts, batch, inputs, acts, stack)
    _errors(plan, frame, lane, lanes, net[last, UNITS], slots, valid, acts[last], other_acts[last], output, error)
    backward(plan[OPTIMIZER], net, image, idx, counts, batch, inputs, acts, error, output, rates[0], rates[1], stack)


@kernel
def _copy_network(frame, to, layers, lane, lanes):
    """Copies the network, the first results, to the target network, results `to` and those after it."""
    for i in range(2 * layers):
        size = _elements(_result(frame, i), 0) // lanes
        copy(_of_lane(_result(frame, to + i), lane, lanes, 4), _of_lane(_result(frame, i), lane, lanes, 4), size)


@kernel
def _step(frame):
    """Results: the network, its optimizer state, the target network if there is one, scratch memory. All but the last in place."""
    fixed = _data(_argument(frame, A_PLAN))
    layers, batch = ints(fixed, SIZES)[LAYERS], ints(fixed, SIZES)[BATCH]
    plan = ints(fixed, SIZES + layers + 1)
    lanes = _elements(_argument(frame, A_AGES), 0) // batch
    adam, copies = plan[OPTIMIZER] == ADAM, plan[HAS_TARGET] and not plan[CONSOLIDATES]
    results, own = _word(frame + _RESULTS), (6 if adam else 2) * layers
    net, other = np.empty((layers, COLUMNS), I8), np.empty((layers, COLUMNS), I8)
    for n in range(layers):
        net[n, INPUTS], net[n, UNITS] = plan[SIZES + n], plan[SIZES + n + 1]
        other[n, INPUTS], other[n, UNITS] = plan[SIZES + n], plan[SIZES + n + 1]
    for lane in range(lanes):
        _fill(net, results, 0, lane, lanes, WEIGHTS, BIAS)
        if adam:
            _fill(net, results, 2 * layers, lane, lanes, MU, BIAS_MU)
            _fill(net, results, 4 * layers, lane, lanes, NU, BIAS_NU)
        buffers, first = results, 0  # the network itself, if there is no target network
        if copies:
            first = own
        elif plan[CONSOLIDATES]:
            buffers, first = _word(frame + _ARGUMENTS), A_NETWORKS + own
        _fill(other, buffers, first, lane, lanes, WEIGHTS, BIAS)
        todo = ints(_of_lane(_argument(frame, A_NUMBERS), lane, lanes, 4), 3)
        if todo[0]:
            _step_lane(frame, lane, lanes, plan, net, other)
        if todo[1] and copies:
            _copy_network(frame, own, layers, lane, lanes)


@handler
def step_handler(frame):
    if not _asks_for_version(frame):
        before = flush_denormals()
        _step(frame)
        restore_denormals(before)
    return 0


@kernel
def _part(buffer, out, axes, t, size):
    """The address of what belongs to part t of `out`, in a buffer with elements of `size` bytes: axes of length 1 are shared."""
    index, step = 0, 1
    for d in range(axes - 1, -1, -1):
        if _dim(buffer, d) > 1:
            index += t % _dim(out, d) * step
            step *= _dim(buffer, d)
        t //= _dim(out, d)
    return _data(buffer) + index * _elements(buffer, axes) * size


@kernel
def _values(frame):
    """Arguments: plan, inputs [n, bits] as bytes, the network. Results: values [n, outputs], scratch memory."""
    fixed, given, out = _argument(frame, 0), _argument(frame, 1), _result(frame, 0)
    axes = _word(out + _RANK) - 2
    numbers = ints(_data(fixed), SIZES)
    layers, image = numbers[LAYERS], numbers[IMAGE:SIZES]
    sizes = ints(_data(fixed), SIZES + layers + 1)
    net = np.empty((layers, COLUMNS), I8)
    rows, bits, outputs = _dim(given, axes), _dim(given, axes + 1), _dim(out, axes + 1)
    parts = _elements(out, 0) // (rows * outputs)
    stack = np.empty(1, I8)
    for t in range(parts):
        for n in range(layers):
            net[n, INPUTS], net[n, UNITS] = sizes[SIZES + n], sizes[SIZES + n + 1]
            net[n, WEIGHTS] = _part(_argument(frame, 2 + 2 * n), out, axes, t, 4)
            net[n, BIAS] = _part(_argument(frame, 3 + 2 * n), out, axes, t, 4)
        first = _part(given, out, axes, t, 1)
        stack[0] = _data(_result(frame, 1))
        block = min(rows, numbers[BATCH])
        idx, counts = take(stack, 4 * block * bits), ints(take(stack, 4 * block), block)
        acts = _activations(net, block, stack)
        for start in range(0, rows, block):
            count = min(block, rows - start)
            for s in range(count):
                x, found, c = octets(first + (start + s) * bits, bits), ints(idx + 4 * s * bits, bits), 0
                for i in range(bits):
                    if x[i]:
                        found[c] = i
                        c += 1
                counts[s] = c
            forward(net, image, idx, counts, count, bits, acts, stack)
            ld = padded(outputs)
            for s in range(count):
                copy(_data(out) + 4 * (t * rows + start + s) * outputs, acts[layers - 1] + 4 * s * ld, outputs)


@handler
def values_handler(frame):
    if not _asks_for_version(frame):
        before = flush_denormals()
        _values(frame)
        restore_denormals(before)
    return 0
