"""What XLA calls: handlers that find their arguments in memory and call the kernels. No Python runs in them.

A handler gets the address of a call frame (`core/native/callframe.py` reads it). Under `vmap` its buffers have leading axes.
"""

from __future__ import annotations

import numpy as np

from remanence.agents.native.kernels import (
    ADAM,
    BIAS,
    BIAS_MU,
    BIAS_NU,
    BIAS_TRACE,
    COLUMNS,
    INPUTS,
    MU,
    NU,
    RMSPROP,
    TRACE,
    UNITS,
    WEIGHTS,
    backward,
    decode,
    forward,
)
from remanence.agents.native.memory import copy, padded, take
from remanence.agents.native.tiles import flush_denormals, restore_denormals
from remanence.core.native.addresses import F4, I8, floats, ints, octets
from remanence.core.native.callframe import (
    argument,
    arguments_of,
    asks_for_version,
    data,
    dim,
    elements,
    rank,
    result,
    results_of,
    word,
)
from remanence.core.native.compiling import handler, inlined, kernel

# The plan of a call: what is fixed when the program is compiled. After these come the inputs and the units of each layer.
(
    LAYERS,
    BATCH,
    CONSOLIDATES,  # whether this is a step of the permanent network, towards Q^P + a share of Q^T of the stored visits
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
    HUBER,
    IMAGE,
) = range(16)
SIZES = IMAGE + 5

# Arguments of a step, before the networks.
(
    A_PLAN,
    A_NUMBERS,  # whether to learn, whether to copy to the target network, items overwritten in the ring
    A_RATES,  # learning rate, Adam's second correction, and the share of Q^T that Q^P absorbs
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
def _plan(buffer):
    """The plan of a call, as wide numbers: kernels are then compiled for one kind of number only."""
    return ints(data(buffer), elements(buffer, 0)).astype(I8)


@kernel
def _of_lane(buffer, lane, lanes, size):
    """The address of a lane's part of a buffer with elements of `size` bytes."""
    return data(buffer) + lane * (elements(buffer, 0) // lanes) * size


@kernel
def _fill(net, buffers, first, lane, lanes, weights, bias):
    """Fills two columns of the table with addresses; weights and bias alternate among the buffers from `first` on."""
    for n in range(net.shape[0]):
        net[n, weights] = _of_lane(word(buffers + 8 * (first + 2 * n)), lane, lanes, 4)
        net[n, bias] = _of_lane(word(buffers + 8 * (first + 2 * n + 1)), lane, lanes, 4)


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
    ages = ints(_of_lane(argument(frame, A_AGES), lane, lanes, 4), batch)
    now = _of_lane(argument(frame, A_FRAME), lane, lanes, 1)
    next_frames = _of_lane(argument(frame, A_NEXT_FRAME), lane, lanes, 1)
    earlier = octets(_of_lane(argument(frame, A_BEFORE), lane, lanes, 1), total)
    cut = octets(_of_lane(argument(frame, A_CUT), lane, lanes, 1), total)
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
        following = now + ((slot + 1) % total) * size if plan[IMPLICIT_NEXT] else next_frames + slot * size
        next_counts[s] = decode(following, size, channels, stride, (frames - 1) * channels, next_bits, m)
        if plan[IMPLICIT_NEXT] and cut[slot]:
            valid[s] = 0


@kernel
def _errors(plan, frame, lane, lanes, outputs, slots, valid, q, other_q, share, output, error):
    """The gradient of the loss with respect to the values of the actions taken (Algorithm 4, lines 10, 11 and 15, 16)."""
    batch, total, ld = plan[BATCH], plan[SLOTS], padded(outputs)
    stored = _of_lane(argument(frame, A_OUTPUT), lane, lanes, 4 if plan[WIDE_OUTPUT] else 1)
    wide, narrow = ints(stored, total), octets(stored, total)
    reward = floats(_of_lane(argument(frame, A_REWARD), lane, lanes, 4), total)
    discount = floats(_of_lane(argument(frame, A_DISCOUNT), lane, lanes, 4), total)
    cached = _of_lane(argument(frame, A_CACHED), lane, lanes, 4)
    next_cached = _of_lane(argument(frame, A_NEXT_CACHED), lane, lanes, 4)
    values, others = floats(q, batch * ld), floats(other_q, batch * ld)
    for s in range(batch):
        slot = slots[s]
        a = 0 if plan[ONE_OUTPUT] else (wide[slot] if plan[WIDE_OUTPUT] else np.int32(narrow[slot]))
        permanent_q = F4(0)
        if plan[CONSOLIDATES]:
            target = reward[slot] + share * others[s * ld + a]
        else:
            head = a // plan[OUTPUTS_PER_HEAD] * plan[OUTPUTS_PER_HEAD]
            following = (slot + 1) % total if plan[IMPLICIT_NEXT] else slot
            of_next = floats(next_cached + 4 * following * outputs, outputs)
            best = F4(-np.inf)
            for b in range(head, head + plan[OUTPUTS_PER_HEAD]):
                best = max(best, others[s * ld + b] + (of_next[b] if plan[CACHED] else F4(0)))
            target = reward[slot] + discount[slot] * best
            if plan[CACHED]:
                permanent_q = floats(cached + 4 * slot * outputs, outputs)[a]
        output[s] = a
        missing = target - permanent_q - values[s * ld + a]
        slope = max(F4(-1), min(missing, F4(1))) if plan[HUBER] else F4(2) * missing
        error[s] = -slope / F4(batch) if valid[s] else F4(0)


@kernel
def _networks(optimizer):
    """How many arrays like the network an update changes: the network and the optimizer's."""
    return 4 if optimizer == RMSPROP else 3 if optimizer == ADAM else 1


@inlined
def _step_lane(frame, lane, lanes, plan, net, other):
    """One update of one lane."""
    batch, inputs, last = plan[BATCH], net[0, INPUTS], net.shape[0] - 1
    rates = floats(_of_lane(argument(frame, A_RATES), lane, lanes, 4), 3)
    numbers = ints(_of_lane(argument(frame, A_NUMBERS), lane, lanes, 4), 3)
    written = _networks(plan[OPTIMIZER]) + (1 if plan[HAS_TARGET] and not plan[CONSOLIDATES] else 0)
    stack = np.empty(1, I8)
    stack[0] = _of_lane(result(frame, 2 * net.shape[0] * written), lane, lanes, 1)
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
    q, other_q = acts[last], other_acts[last]
    _errors(plan, frame, lane, lanes, net[last, UNITS], slots, valid, q, other_q, rates[2], output, error)
    backward(plan[OPTIMIZER], net, image, idx, counts, batch, inputs, acts, error, output, rates[0], rates[1], stack)


@kernel
def _copy_network(frame, to, layers, lane, lanes):
    """Copies the network, the first results, to the target network, results `to` and those after it."""
    for i in range(2 * layers):
        size = elements(result(frame, i), 0) // lanes
        copy(_of_lane(result(frame, to + i), lane, lanes, 4), _of_lane(result(frame, i), lane, lanes, 4), size)


@inlined
def _step(frame):
    """Results: the network, its optimizer state, the target network if there is one, scratch memory. All but the last in place."""
    plan = _plan(argument(frame, A_PLAN))
    layers = plan[LAYERS]
    lanes = elements(argument(frame, A_AGES), 0) // plan[BATCH]
    networks, copies = _networks(plan[OPTIMIZER]), plan[HAS_TARGET] and not plan[CONSOLIDATES]
    results, leaves = results_of(frame), 2 * layers * networks
    net, other = np.empty((layers, COLUMNS), I8), np.empty((layers, COLUMNS), I8)
    for n in range(layers):
        net[n, INPUTS], net[n, UNITS] = plan[SIZES + n], plan[SIZES + n + 1]
        other[n, INPUTS], other[n, UNITS] = plan[SIZES + n], plan[SIZES + n + 1]
    for lane in range(lanes):
        _fill(net, results, 0, lane, lanes, WEIGHTS, BIAS)
        if networks > 1:
            _fill(net, results, 2 * layers, lane, lanes, MU, BIAS_MU)
            _fill(net, results, 4 * layers, lane, lanes, NU, BIAS_NU)
        if networks > 3:
            _fill(net, results, 6 * layers, lane, lanes, TRACE, BIAS_TRACE)
        buffers, first = results, 0  # the network itself, if there is no target network
        if copies:
            first = leaves
        elif plan[CONSOLIDATES]:
            buffers, first = arguments_of(frame), A_NETWORKS + leaves
        _fill(other, buffers, first, lane, lanes, WEIGHTS, BIAS)
        todo = ints(_of_lane(argument(frame, A_NUMBERS), lane, lanes, 4), 3)
        if todo[0]:
            _step_lane(frame, lane, lanes, plan, net, other)
        if todo[1] and copies:
            _copy_network(frame, leaves, layers, lane, lanes)


@handler
def step_handler(frame):
    if not asks_for_version(frame):
        before = flush_denormals()
        _step(frame)
        restore_denormals(before)
    return 0


@kernel
def _part(buffer, out, axes, t, size):
    """The address of what belongs to part t of `out`, in a buffer with elements of `size` bytes: axes of length 1 are shared."""
    index, step = 0, 1
    for d in range(axes - 1, -1, -1):
        if dim(buffer, d) > 1:
            index += t % dim(out, d) * step
            step *= dim(buffer, d)
        t //= dim(out, d)
    return data(buffer) + index * elements(buffer, axes) * size


@inlined
def _values(frame):
    """Arguments: plan, inputs [n, bits] as bytes, the network. Results: values [n, outputs], scratch memory."""
    plan, source, out = _plan(argument(frame, A_PLAN)), argument(frame, 1), result(frame, 0)
    axes = rank(out) - 2
    layers, image = plan[LAYERS], plan[IMAGE:SIZES]
    net = np.empty((layers, COLUMNS), I8)
    rows, bits, outputs = dim(source, axes), dim(source, axes + 1), dim(out, axes + 1)
    parts = elements(out, 0) // (rows * outputs)
    stack = np.empty(1, I8)
    for t in range(parts):
        for n in range(layers):
            net[n, INPUTS], net[n, UNITS] = plan[SIZES + n], plan[SIZES + n + 1]
            net[n, WEIGHTS] = _part(argument(frame, 2 + 2 * n), out, axes, t, 4)
            net[n, BIAS] = _part(argument(frame, 3 + 2 * n), out, axes, t, 4)
        first = _part(source, out, axes, t, 1)
        stack[0] = data(result(frame, 1))
        block = min(rows, plan[BATCH])
        idx, counts = take(stack, 4 * block * bits), ints(take(stack, 4 * block), block)
        acts = _activations(net, block, stack)
        for start in range(0, rows, block):
            count = min(block, rows - start)
            for s in range(count):
                x, found, c = octets(first + (start + s) * bits, bits), ints(idx + 4 * s * bits, bits), 0
                for i in range(0, bits, 8):  # eight at a time: most are 0
                    if i + 8 <= bits and word(first + (start + s) * bits + i) == 0:
                        continue
                    for b in range(i, min(i + 8, bits)):
                        if x[b]:
                            found[c] = b
                            c += 1
                counts[s] = c
            forward(net, image, idx, counts, count, bits, acts, stack)
            ld = padded(outputs)
            for s in range(count):
                copy(data(out) + 4 * (t * rows + start + s) * outputs, acts[layers - 1] + 4 * s * ld, outputs)


@handler
def values_handler(frame):
    if not asks_for_version(frame):
        before = flush_denormals()
        _values(frame)
        restore_denormals(before)
    return 0
