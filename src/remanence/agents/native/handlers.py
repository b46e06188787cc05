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
    OUTPUTS,
    RMSPROP,
    TRACE,
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

# The plan of a call: what is fixed when the program is compiled. After these come the fields of each layer's shape.
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
    REPEAT_FIRST,
    SHARED,  # leading layers that both parts share; a step of the permanent part is one of the others only
    HEAD,  # whether a permanent head on the shared layers is evaluated besides, instead of stored values
    LAYER_TABLE,
) = range(19)
FIELDS = COLUMNS - INPUTS  # of a layer

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
def _table(plan):
    """The table of a network, still without addresses."""
    net = np.zeros((plan[LAYERS], COLUMNS), I8)
    for n in range(plan[LAYERS]):
        for field in range(FIELDS):
            net[n, INPUTS + field] = plan[LAYER_TABLE + n * FIELDS + field]
    return net


@kernel
def _fill(net, start, buffers, first, lane, lanes, weights, bias):
    """Fills two columns of the table with addresses, from layer `start` on; weights and bias alternate among the buffers from
    `first` on. -> the buffer after them."""
    for n in range(start, net.shape[0]):
        net[n, weights] = _of_lane(word(buffers + 8 * first), lane, lanes, 4)
        net[n, bias] = _of_lane(word(buffers + 8 * (first + 1)), lane, lanes, 4)
        first += 2
    return first


@kernel
def _activations(net, batch, stack):
    acts = np.empty(net.shape[0], I8)
    for n in range(net.shape[0]):
        acts[n] = take(stack, 4 * batch * padded(net[n, OUTPUTS]))
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
                there = min(back, before) if plan[REPEAT_FIRST] else back
                if there <= before and there <= age:
                    place = now + ((slot - there) % total) * size
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
def _errors(plan, frame, lane, lanes, outputs, slots, valid, q, other_q, head_q, next_head_q, share, output, error):
    """The gradient of the loss with respect to the values of the actions taken (Algorithm 4, lines 10, 11 and 15, 16)."""
    batch, total, ld = plan[BATCH], plan[SLOTS], padded(outputs)
    actions = _of_lane(argument(frame, A_OUTPUT), lane, lanes, 4 if plan[WIDE_OUTPUT] else 1)
    wide, narrow = ints(actions, total), octets(actions, total)
    reward = floats(_of_lane(argument(frame, A_REWARD), lane, lanes, 4), total)
    discount = floats(_of_lane(argument(frame, A_DISCOUNT), lane, lanes, 4), total)
    cached = _of_lane(argument(frame, A_CACHED), lane, lanes, 4)
    next_cached = _of_lane(argument(frame, A_NEXT_CACHED), lane, lanes, 4)
    values, others = floats(q, batch * ld), floats(other_q, batch * ld)
    of_head, of_next_head = floats(head_q, batch * ld), floats(next_head_q, batch * ld)
    for s in range(batch):
        slot = slots[s]
        a = 0 if plan[ONE_OUTPUT] else (wide[slot] if plan[WIDE_OUTPUT] else np.int32(narrow[slot]))
        permanent_q = F4(0)
        if plan[CONSOLIDATES]:
            stored = of_head[s * ld + a] if plan[HEAD] else reward[slot]
            target = stored + share * others[s * ld + a]
        else:
            head = a // plan[OUTPUTS_PER_HEAD] * plan[OUTPUTS_PER_HEAD]
            following = (slot + 1) % total if plan[IMPLICIT_NEXT] else slot
            of_next = floats(next_cached + 4 * following * outputs, outputs)
            best = F4(-np.inf)
            for b in range(head, head + plan[OUTPUTS_PER_HEAD]):
                permanent_next = of_next[b] if plan[CACHED] else of_next_head[s * ld + b] if plan[HEAD] else F4(0)
                best = max(best, others[s * ld + b] + permanent_next)
            target = reward[slot] + discount[slot] * best
            if plan[CACHED]:
                permanent_q = floats(cached + 4 * slot * outputs, outputs)[a]
            elif plan[HEAD]:
                permanent_q = of_head[s * ld + a]
        output[s] = a
        missing = target - permanent_q - values[s * ld + a]
        slope = max(F4(-1), min(missing, F4(1))) if plan[HUBER] else F4(2) * missing
        error[s] = -slope / F4(batch) if valid[s] else F4(0)


@kernel
def _networks(optimizer):
    """How many arrays like the network an update changes: the network and the optimizer's."""
    return 4 if optimizer == RMSPROP else 3 if optimizer == ADAM else 1


@inlined
def _step_lane(frame, lane, lanes, plan, written, net, other, head):
    """One update of one lane. `other`: the target network, or the transient one in a step of the permanent part."""
    batch, inputs, last = plan[BATCH], net[0, INPUTS], net.shape[0] - 1
    shared, first = plan[SHARED], plan[SHARED] if plan[CONSOLIDATES] else 0
    rates = floats(_of_lane(argument(frame, A_RATES), lane, lanes, 4), 3)
    numbers = ints(_of_lane(argument(frame, A_NUMBERS), lane, lanes, 4), 3)
    stack = np.empty(1, I8)
    stack[0] = _of_lane(result(frame, written), lane, lanes, 1)
    idx, next_idx = take(stack, 4 * batch * inputs), take(stack, 4 * batch * inputs)
    counts, next_counts = ints(take(stack, 4 * batch), batch), ints(take(stack, 4 * batch), batch)
    slots, valid = ints(take(stack, 4 * batch), batch), ints(take(stack, 4 * batch), batch)
    output, error = ints(take(stack, 4 * batch), batch), floats(take(stack, 4 * batch), batch)
    _read_inputs(plan, frame, lane, lanes, numbers[2], inputs, idx, counts, next_idx, next_counts, slots, valid)
    acts, other_acts = _activations(net, batch, stack), _activations(net, batch, stack)
    if plan[CONSOLIDATES]:
        forward(other, 0, idx, counts, batch, inputs, other_acts, stack)
    else:
        forward(other, 0, next_idx, next_counts, batch, inputs, other_acts, stack)
    if first > 0:
        acts[first - 1] = other_acts[first - 1]
    forward(net, first, idx, counts, batch, inputs, acts, stack)
    head_acts, next_head_acts = acts, other_acts
    if plan[HEAD]:
        head_acts, next_head_acts = _activations(net, batch, stack), _activations(net, batch, stack)
        head_acts[shared - 1], next_head_acts[shared - 1] = acts[shared - 1], other_acts[shared - 1]
        forward(head, shared, idx, counts, batch, inputs, head_acts, stack)
        if not plan[CONSOLIDATES]:
            forward(head, shared, next_idx, next_counts, batch, inputs, next_head_acts, stack)
    _errors(
        plan,
        frame,
        lane,
        lanes,
        net[last, OUTPUTS],
        slots,
        valid,
        acts[last],
        other_acts[last],
        head_acts[last],
        next_head_acts[last],
        rates[2],
        output,
        error,
    )
    backward(plan[OPTIMIZER], net, first, idx, counts, batch, inputs, acts, error, output, rates[0], rates[1], stack)


@kernel
def _copy_network(frame, to, layers, lane, lanes):
    """Copies the network, the first results, to the target network, results `to` and those after it."""
    for i in range(2 * layers):
        size = elements(result(frame, i), 0) // lanes
        copy(_of_lane(result(frame, to + i), lane, lanes, 4), _of_lane(result(frame, i), lane, lanes, 4), size)


@inlined
def _step(frame):
    """Results: the network, its optimizer state, the target network if there is one, scratch memory. All but the last in place.

    Arguments after these networks: in a step of the permanent part the transient network; the permanent head, if it is evaluated.
    """
    plan = _plan(argument(frame, A_PLAN))
    layers, networks, copies = plan[LAYERS], _networks(plan[OPTIMIZER]), plan[HAS_TARGET]
    lanes = elements(argument(frame, A_AGES), 0) // plan[BATCH]
    results, arguments = results_of(frame), arguments_of(frame)
    first = plan[SHARED] if plan[CONSOLIDATES] else 0
    leaves = 2 * (layers - first) * networks  # of the network and its optimizer
    written = leaves + (2 * layers if copies else 0)
    net, other, head = _table(plan), _table(plan), _table(plan)
    for lane in range(lanes):
        after = _fill(net, first, results, 0, lane, lanes, WEIGHTS, BIAS)
        if networks > 1:
            after = _fill(net, first, results, after, lane, lanes, MU, BIAS_MU)
            after = _fill(net, first, results, after, lane, lanes, NU, BIAS_NU)
        if networks > 3:
            _fill(net, first, results, after, lane, lanes, TRACE, BIAS_TRACE)
        after = A_NETWORKS + written
        if plan[CONSOLIDATES]:
            after = _fill(other, 0, arguments, after, lane, lanes, WEIGHTS, BIAS)
        else:  # the network itself, if there is no target network
            _fill(other, 0, results, leaves if copies else 0, lane, lanes, WEIGHTS, BIAS)
        if plan[HEAD]:
            _fill(head, plan[SHARED], arguments, after, lane, lanes, WEIGHTS, BIAS)
        todo = ints(_of_lane(argument(frame, A_NUMBERS), lane, lanes, 4), 3)
        if todo[0]:
            _step_lane(frame, lane, lanes, plan, written, net, other, head)
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
    layers, net = plan[LAYERS], _table(plan)
    rows, bits, outputs = dim(source, axes), dim(source, axes + 1), dim(out, axes + 1)
    parts = elements(out, 0) // (rows * outputs)
    stack = np.empty(1, I8)
    for t in range(parts):
        for n in range(layers):
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
            forward(net, 0, idx, counts, count, bits, acts, stack)
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
