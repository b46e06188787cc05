"""The layers of a network on binary inputs, forward and backward, and the optimizers.

A network is a table `net`, one row per layer: addresses of its weights and of their optimizer state, and sizes. Layer 0 reads bits:
it is dense, or a convolution (`image` has its sizes). All others are dense. All but the last are followed by a ReLU.

An input is a list of the numbers of the bits that are set. Activations of layer l, [batch, units], are at `acts[l]`, in rows of
`padded(units)` floats. Gradients of activations have room for `padded(batch)` rows.
"""

from __future__ import annotations

import numpy as np

from remanence.agents.native.memory import padded, take, zero
from remanence.agents.native.tiles import add_to, product, transpose
from remanence.core.native.addresses import F4, floats, ints, octets
from remanence.core.native.compiling import kernel

# Columns of `net`.
WEIGHTS, BIAS, MU, BIAS_MU, NU, BIAS_NU, TRACE, BIAS_TRACE, INPUTS, UNITS = range(10)
COLUMNS = 10
# Places in `image`: 0 filters for a dense layer 0.
HEIGHT, WIDTH, CHANNELS, SIDE, FILTERS = range(5)
# Optimizers. Their constants are rounded once, as in JAX.
SGD, ADAM, RMSPROP = 0, 1, 2
_B1, _B2, _A1, _A2, _EPS = F4(0.9), F4(0.999), F4(1 - 0.9), F4(1 - 0.999), F4(1e-8)
_DECAY, _RENEWAL, _FLOOR = F4(0.95), F4(1 - 0.95), F4(0.01)


@kernel
def decode(address, n, channels, stride, start, out, count):
    """Appends the numbers of the bits that are set among n bytes (in NumPy's order) to `out`; -> how many there are now.

    Bit c of group p becomes p · stride + start + c, where a group has `channels` bits: frames are interleaved by pixel.
    """
    packed = octets(address, n)
    for i in range(n):
        byte = packed[i]
        while byte:
            top = 0
            high = byte
            if high & 0xF0:
                high >>= 4
            else:
                top += 4
            if high & 0xC:
                high >>= 2
            else:
                top += 2
            if not high & 0x2:
                top += 1
            bit = i * 8 + top
            out[count] = bit // channels * stride + start + bit % channels
            count += 1
            byte = byte & ~np.uint8(128 >> top) & np.uint8(255)
    return count


@kernel
def sparse_forward(weights, bias, units, idx, counts, batch, most, out):
    """out[s] = relu(bias + the rows of the bits of input s); four rows at a time."""
    ld, start = padded(units), floats(bias, units)
    for s in range(batch):
        h, bits, n = floats(out + 4 * s * ld, units), ints(idx + 4 * s * most, counts[s]), counts[s]
        for j in range(units):
            h[j] = start[j]
        k = 0
        while k + 4 <= n:
            r0, r1 = floats(weights + 4 * bits[k] * units, units), floats(weights + 4 * bits[k + 1] * units, units)
            r2, r3 = floats(weights + 4 * bits[k + 2] * units, units), floats(weights + 4 * bits[k + 3] * units, units)
            for j in range(units):
                h[j] = h[j] + r0[j] + r1[j] + r2[j] + r3[j]
            k += 4
        while k < n:
            r0 = floats(weights + 4 * bits[k] * units, units)
            for j in range(units):
                h[j] = h[j] + r0[j]
            k += 1
        for j in range(units):
            h[j] = max(h[j], F4(0))


@kernel
def conv_forward(weights, bias, image, idx, counts, batch, most, out, stack):
    """A convolution of bits: each adds `side` runs of side · filters numbers to a picture with a margin."""
    channels, side, filters = image[CHANNELS], image[SIDE], image[FILTERS]
    height, width, mark = image[HEIGHT] - side + 1, image[WIDTH] - side + 1, stack[0]
    size, across, run = _canvas(image), (image[WIDTH] + side - 1) * filters, side * filters
    picture, turned = take(stack, 4 * size), take(stack, 4 * channels * side * run)
    corners, rows = _places(image, stack)
    start = floats(take(stack, 4 * width * filters), width * filters)
    _turn(weights, image, turned, False)
    for x in range(width * filters):
        start[x] = floats(bias, filters)[x % filters]
    ld = padded(height * width * filters)
    for s in range(batch):
        zero(picture, size)
        bits = ints(idx + 4 * s * most, counts[s])
        for k in range(counts[s]):
            to, row = picture + 4 * corners[bits[k]], turned + 4 * rows[bits[k]]
            for i in range(side):
                add_to(to - 4 * i * across, row + 4 * i * run, run)
        for y in range(height):
            seen = floats(picture + 4 * ((y + side - 1) * across + (side - 1) * filters), width * filters)
            h = floats(out + 4 * (s * ld + y * width * filters), width * filters)
            for x in range(width * filters):
                h[x] = max(seen[x] + start[x], F4(0))
    stack[0] = mark


@kernel
def _canvas(image):
    """Floats of a convolution's output with a margin, into which every bit adds without looking at the edges."""
    return (image[HEIGHT] + image[SIDE] - 1) * (image[WIDTH] + image[SIDE] - 1) * image[FILTERS]


@kernel
def _places(image, stack):
    """For each bit of an input: where it adds to the canvas, and which rows of the turned weights."""
    channels, side, filters = image[CHANNELS], image[SIDE], image[FILTERS]
    bits = image[HEIGHT] * image[WIDTH] * channels
    corners, rows = ints(take(stack, 4 * bits), bits), ints(take(stack, 4 * bits), bits)
    n = 0
    for y in range(image[HEIGHT]):
        for x in range(image[WIDTH]):
            for c in range(channels):
                corners[n] = ((y + side - 1) * (image[WIDTH] + side - 1) + x) * filters
                rows[n] = c * side * side * filters
                n += 1
    return corners, rows


@kernel
def _turn(weights, image, turned, back):
    """Weights [side, side, channels, filters] <-> [channels, side, side reversed, filters]: what one bit adds to a row."""
    channels, side, filters = image[CHANNELS], image[SIDE], image[FILTERS]
    w, t = floats(weights, side * side * channels * filters), floats(turned, side * side * channels * filters)
    for i in range(side):
        for j in range(side):
            for c in range(channels):
                a, b = ((i * side + j) * channels + c) * filters, ((c * side + i) * side + side - 1 - j) * filters
                for f in range(filters):
                    if back:
                        w[a + f] = t[b + f]
                    else:
                        t[b + f] = w[a + f]


@kernel
def conv_gradient(image, idx, counts, batch, most, delta, gradient, bias_gradient, stack):
    """The gradients of a convolution's weights and bias, from `delta`, the gradient of its output."""
    channels, side, filters = image[CHANNELS], image[SIDE], image[FILTERS]
    height, width, mark = image[HEIGHT] - side + 1, image[WIDTH] - side + 1, stack[0]
    size, across, run = _canvas(image), (image[WIDTH] + side - 1) * filters, side * filters
    picture, turned = take(stack, 4 * size), take(stack, 4 * channels * side * run)
    corners, rows = _places(image, stack)
    total_at = take(stack, 4 * width * filters)
    total, of_bias = floats(total_at, width * filters), floats(bias_gradient, filters)
    zero(turned, channels * side * run)
    zero(picture, size)
    zero(total_at, width * filters)
    zero(bias_gradient, filters)
    ld = padded(height * width * filters)
    for s in range(batch):
        for y in range(height):
            seen = floats(picture + 4 * ((y + side - 1) * across + (side - 1) * filters), width * filters)
            d = floats(delta + 4 * (s * ld + y * width * filters), width * filters)
            for x in range(width * filters):
                seen[x] = d[x]
                total[x] += d[x]
        bits = ints(idx + 4 * s * most, counts[s])
        for k in range(counts[s]):
            seen_at, row = picture + 4 * corners[bits[k]], turned + 4 * rows[bits[k]]
            for i in range(side):
                add_to(row + 4 * i * run, seen_at - 4 * i * across, run)
    for x in range(width * filters):
        of_bias[x % filters] += total[x]
    _turn(gradient, image, turned, True)
    stack[0] = mark


@kernel
def dense_forward(weights, bias, inputs, units, source, batch, out, relu, stack):
    """out = source @ weights + bias, and a ReLU if asked for."""
    ld, mark = padded(units), stack[0]
    if ld != units:  # the products need full vectors: weights with columns of zeros
        wide = take(stack, 4 * inputs * ld)
        for i in range(inputs):
            to, row = floats(wide + 4 * i * ld, ld), floats(weights + 4 * i * units, units)
            for j in range(units):
                to[j] = row[j]
            for j in range(units, ld):
                to[j] = F4(0)
        weights = wide
    product(source, padded(inputs), 1, weights, ld, out, ld, batch, ld, inputs)
    start = floats(bias, units)
    for s in range(batch):
        h = floats(out + 4 * s * ld, units)
        if relu:
            for j in range(units):
                h[j] = max(h[j] + start[j], F4(0))
        else:
            for j in range(units):
                h[j] = h[j] + start[j]
    stack[0] = mark


@kernel
def forward(net, image, idx, counts, batch, most, acts, stack):
    """The activations of all layers, at `acts`."""
    last = net.shape[0] - 1
    if image[FILTERS]:
        conv_forward(net[0, WEIGHTS], net[0, BIAS], image, idx, counts, batch, most, acts[0], stack)
    else:
        sparse_forward(net[0, WEIGHTS], net[0, BIAS], net[0, UNITS], idx, counts, batch, most, acts[0])
    for n in range(1, last + 1):
        dense_forward(
            net[n, WEIGHTS], net[n, BIAS], net[n, INPUTS], net[n, UNITS], acts[n - 1], batch, acts[n], n < last, stack
        )


@kernel
def step_weights(kind, weights, mu, nu, trace, gradient, n, lr, scale):
    """One step of the optimizer on n numbers, at addresses.

    SGD and RMSProp: lr is the learning rate. Adam: lr is divided by its first bias correction, `scale` is 1 over the second one.
    """
    w, g = floats(weights, n), floats(gradient, n)
    if kind == SGD:
        for j in range(n):
            w[j] = w[j] - lr * g[j]
        return
    m, v = floats(mu, n), floats(nu, n)
    if kind == RMSPROP:
        t = floats(trace, n)
        for j in range(n):
            x = g[j]
            first, second = _DECAY * m[j] + _RENEWAL * x, _DECAY * v[j] + _RENEWAL * (x * x)
            m[j] = first
            v[j] = second
            t[j] = _DECAY * t[j] + x / (np.sqrt(max(second - first * first, F4(0))) + _FLOOR)
            w[j] = w[j] - lr * t[j]
        return
    for j in range(n):
        x = g[j]
        first, second = _B1 * m[j] + _A1 * x, _B2 * v[j] + _A2 * (x * x)
        m[j] = first
        v[j] = second
        w[j] = w[j] - lr * first / (np.sqrt(second * scale) + _EPS)


@kernel
def step_without_gradient(kind, weights, mu, nu, trace, n, lr, scale):
    """The same for a gradient of 0."""
    if kind == SGD:
        return
    w, m, v = floats(weights, n), floats(mu, n), floats(nu, n)
    if kind == RMSPROP:
        t = floats(trace, n)
        for j in range(n):
            m[j] = _DECAY * m[j]
            v[j] = _DECAY * v[j]
            t[j] = _DECAY * t[j]
            w[j] = w[j] - lr * t[j]
        return
    for j in range(n):
        first, second = _B1 * m[j], _B2 * v[j]
        m[j] = first
        v[j] = second
        w[j] = w[j] - lr * first / (np.sqrt(second * scale) + _EPS)


@kernel
def dense_backward(weights, inputs, units, delta, batch, acts, out, stack):
    """out = delta @ weightsᵀ where the activations are positive: as (weights @ deltaᵀ)ᵀ, so that no weight is moved."""
    ld, wide, mark = padded(batch), padded(inputs), stack[0]
    turned, result = take(stack, 4 * padded(units) * ld), take(stack, 4 * wide * ld)
    transpose(delta, padded(units), turned, ld, batch, units)
    product(weights, units, 1, turned, ld, result, ld, inputs, ld, units)
    transpose(result, ld, out, wide, inputs, batch)
    for s in range(batch):
        h, d = floats(acts + 4 * s * wide, inputs), floats(out + 4 * s * wide, inputs)
        for i in range(inputs):
            d[i] = d[i] if h[i] > 0 else F4(0)
    stack[0] = mark


@kernel
def dense_update(kind, net, n, source, delta, batch, lr, scale, stack):
    """A step of the weights of dense layer n; the gradient of four rows at a time."""
    inputs, units = net[n, INPUTS], net[n, UNITS]
    ld, mark = padded(units), stack[0]
    gradient = take(stack, 4 * 4 * ld)
    i = 0
    while i < inputs:
        rows = min(4, inputs - i)
        product(source + 4 * i, 1, padded(inputs), delta, ld, gradient, ld, rows, ld, batch)
        place = 4 * i * units
        if ld == units:
            step_weights(
                kind,
                net[n, WEIGHTS] + place,
                net[n, MU] + place,
                net[n, NU] + place,
                net[n, TRACE] + place,
                gradient,
                rows * units,
                lr,
                scale,
            )
        else:
            for r in range(rows):
                at = place + 4 * r * units
                step_weights(
                    kind,
                    net[n, WEIGHTS] + at,
                    net[n, MU] + at,
                    net[n, NU] + at,
                    net[n, TRACE] + at,
                    gradient + 4 * r * ld,
                    units,
                    lr,
                    scale,
                )
        i += rows
    _bias_update(kind, net, n, delta, batch, lr, scale, gradient)
    stack[0] = mark


@kernel
def _bias_update(kind, net, n, delta, batch, lr, scale, gradient):
    units = net[n, UNITS]
    ld = padded(units)
    zero(gradient, units)
    for s in range(batch):
        add_to(gradient, delta + 4 * s * ld, units)
    step_weights(kind, net[n, BIAS], net[n, BIAS_MU], net[n, BIAS_NU], net[n, BIAS_TRACE], gradient, units, lr, scale)


@kernel
def sparse_update(kind, net, idx, counts, batch, most, delta, lr, scale, stack):
    """A step of layer 0. The gradient of a row is the sum of `delta` over the inputs whose bit is set: it is never stored."""
    inputs, units, mark = net[0, INPUTS], net[0, UNITS], stack[0]
    ld, gradient = padded(units), take(stack, 4 * padded(units))
    begin, fill = ints(take(stack, 4 * (inputs + 1)), inputs + 1), ints(take(stack, 4 * inputs), inputs)
    order = _samples_by_bit(idx, counts, batch, most, inputs, begin, fill, stack)
    for i in range(inputs):
        low, high, at = begin[i], begin[i + 1], 4 * i * units
        weights, mu, nu, trace = net[0, WEIGHTS] + at, net[0, MU] + at, net[0, NU] + at, net[0, TRACE] + at
        if low == high:
            step_without_gradient(kind, weights, mu, nu, trace, units, lr, scale)
            continue
        first = delta + 4 * order[low] * ld
        if high - low == 1:
            step_weights(kind, weights, mu, nu, trace, first, units, lr, scale)
            continue
        g, d, e = floats(gradient, units), floats(first, units), floats(delta + 4 * order[low + 1] * ld, units)
        for j in range(units):
            g[j] = d[j] + e[j]
        k = low + 2
        while k + 2 <= high:
            d, e = floats(delta + 4 * order[k] * ld, units), floats(delta + 4 * order[k + 1] * ld, units)
            for j in range(units):
                g[j] = g[j] + d[j] + e[j]
            k += 2
        if k < high:
            d = floats(delta + 4 * order[k] * ld, units)
            for j in range(units):
                g[j] = g[j] + d[j]
        step_weights(kind, weights, mu, nu, trace, gradient, units, lr, scale)
    _bias_update(kind, net, 0, delta, batch, lr, scale, gradient)
    stack[0] = mark


@kernel
def _samples_by_bit(idx, counts, batch, most, inputs, begin, fill, stack):
    """The samples that have bit i are order[begin[i]:begin[i + 1]]; -> order."""
    for i in range(inputs + 1):
        begin[i] = 0
    for s in range(batch):
        bits = ints(idx + 4 * s * most, counts[s])
        for k in range(counts[s]):
            begin[bits[k] + 1] += 1
    for i in range(inputs):
        begin[i + 1] += begin[i]
        fill[i] = begin[i]
    order = ints(take(stack, 4 * max(begin[inputs], 1)), max(begin[inputs], 1))
    for s in range(batch):
        bits = ints(idx + 4 * s * most, counts[s])
        for k in range(counts[s]):
            order[fill[bits[k]]] = s
            fill[bits[k]] += 1
    return order


@kernel
def conv_update(kind, net, image, idx, counts, batch, most, delta, lr, scale, stack):
    """A step of a convolution's weights."""
    mark, size = stack[0], image[SIDE] * image[SIDE] * image[CHANNELS] * image[FILTERS]
    gradient, of_bias = take(stack, 4 * size), take(stack, 4 * image[FILTERS])
    conv_gradient(image, idx, counts, batch, most, delta, gradient, of_bias, stack)
    step_weights(kind, net[0, WEIGHTS], net[0, MU], net[0, NU], net[0, TRACE], gradient, size, lr, scale)
    step_weights(
        kind, net[0, BIAS], net[0, BIAS_MU], net[0, BIAS_NU], net[0, BIAS_TRACE], of_bias, image[FILTERS], lr, scale
    )
    stack[0] = mark


@kernel
def backward(kind, net, image, idx, counts, batch, most, acts, error, output, lr, scale, stack):
    """Steps of all weights. `error` [batch] is the gradient of the values `output` [batch] of the last layer."""
    last, mark = net.shape[0] - 1, stack[0]
    outputs = padded(net[last, UNITS])
    delta = take(stack, 4 * padded(batch) * outputs)
    d = floats(delta, padded(batch) * outputs)
    zero(delta, padded(batch) * outputs)
    for s in range(batch):
        d[s * outputs + output[s]] = error[s]
    for n in range(last, 0, -1):
        following = take(stack, 4 * padded(batch) * padded(net[n, INPUTS]))
        dense_backward(net[n, WEIGHTS], net[n, INPUTS], net[n, UNITS], delta, batch, acts[n - 1], following, stack)
        dense_update(kind, net, n, acts[n - 1], delta, batch, lr, scale, stack)
        delta = following
    if image[FILTERS]:
        conv_update(kind, net, image, idx, counts, batch, most, delta, lr, scale, stack)
    else:
        sparse_update(kind, net, idx, counts, batch, most, delta, lr, scale, stack)
    stack[0] = mark
