#!/usr/bin/env python3
"""Writes tests/data/arithmetic64/{exp,log,sin,cos}.txt: values of the functions to 300 bits.

Needs mpmath.  A line is the bits of x, the bits of the value rounded to binary64, and what the
rounding left, in units of 2^-20 of the value's last place.
"""
import math
import random
import struct

import mpmath

mpmath.mp.prec = 300
random.seed(1)


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def line(x, value):
    y = float(value)
    rest = (value - mpmath.mpf(y)) / mpmath.mpf(math.ulp(y)) * 2**20
    return f"{bits(x):016x} {bits(y):016x} {int(mpmath.nint(rest))}\n"


def write(name, function, xs):
    with open(f"tests/data/arithmetic64/{name}.txt", "w", encoding="ascii") as out:
        for x in sorted(set(xs)):
            out.write(line(x, function(mpmath.mpf(x))))


def exp_inputs():
    ln2 = math.log(2)
    yield from (random.uniform(-708, 709) for _ in range(400))
    yield from (random.uniform(-1, 1) * 2.0 ** random.randint(-40, 0) for _ in range(200))
    for _ in range(200):  # the borders of the reduction
        yield (random.randint(-1020, 1020) + 0.5) * ln2 + random.uniform(-1, 1) * 1e-13
    yield from (random.randint(-1020, 1020) * ln2 for _ in range(100))
    yield from (0.0, -708.0, 709.0)


def log_inputs():
    yield from (random.uniform(0.5, 2) for _ in range(300))
    yield from (1 + random.uniform(-1, 1) * 2.0 ** random.randint(-52, -1) for _ in range(200))
    yield from (random.uniform(1, 2) * 2.0 ** random.randint(-1022, 1023) for _ in range(200))
    for _ in range(300):  # the draw: u, then -ln u
        u = (random.getrandbits(52) + 0.5) * 2.0**-52
        yield u
        yield -math.log(u)
    yield from (0.5 * 2.0**-52, 1 - 2.0**-53, math.sqrt(2), math.sqrt(0.5), 1 + 2.0**-52)


def angles():
    yield from (random.uniform(-8, 8) for _ in range(200))
    yield from (random.uniform(-1, 1) * 2.0 ** random.randint(-30, 40) for _ in range(300))
    for _ in range(300):  # rope: a position times a frequency in f32
        w = struct.unpack("<f", struct.pack("<f", 10 ** random.uniform(-6, 0)))[0]
        yield random.randrange(1 << 22) * w
    for _ in range(100):  # the doubles nearest to multiples of pi / 2
        yield float(random.randrange(1 << random.randint(1, 39)) * mpmath.pi / 2)
    # The nearest of all below 2^40: numerators of the convergents of 2 / pi, times odd numbers.
    for e in range(-12, 40):
        scale = mpmath.mpf(2) ** (e - 52)
        ratio = scale / (mpmath.pi / 2)
        p0, p1, q0, q1 = 0, 1, 1, 0
        x = ratio
        while True:
            a = int(mpmath.floor(x))
            p0, p1, q0, q1 = p1, a * p1 + p0, q1, a * q1 + q0
            if q1 >= 2**53:
                break
            if 2**52 <= q1:
                yield float(q1 * scale)
            x = 1 / (x - a)


write("exp", mpmath.exp, exp_inputs())
write("log", mpmath.log, (x for x in log_inputs() if x > 0 and x != 1))
write("sin", mpmath.sin, (x for x in angles() if x != 0))
write("cos", mpmath.cos, angles())
