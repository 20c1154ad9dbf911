#!/usr/bin/env python3
"""Finds the polynomial coefficients of lib/kernels/math_const.h: minimax fits (Remez exchange) with the coefficients rounded to
float or double one after another, lowest order first, the rest refitted each time. Needs mpmath. Prints C and the error reached."""
import struct
from mpmath import mp, mpf, matrix, lu_solve, exp, tanh, erf, erfc, sin, cos, log, sqrt, pi

mp.prec = 200
GRID = 1500


def remez(f, w, powers, a, b):
    """Coefficients of sum c[i] x**powers[i] that minimise max |f - p| * w on [a, b]."""
    n = len(powers)
    xs = [(a + b) / 2 - (b - a) / 2 * mp.cos(pi * i / n) for i in range(n + 1)]
    grid = [a + (b - a) * mpf(i) / GRID for i in range(GRID + 1)]
    fg = [(f(x), w(x)) for x in grid]
    for _ in range(12):
        m, r = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for i, x in enumerate(xs):
            for j, p in enumerate(powers):
                m[i, j] = x ** p
            m[i, n] = (-1) ** i / w(x)
            r[i] = f(x)
        sol = lu_solve(m, r)
        c = [sol[i] for i in range(n)]
        err = [(fx - sum(ck * x ** p for ck, p in zip(c, powers))) * wx for x, (fx, wx) in zip(grid, fg)]
        pick = []  # the largest error of each run of one sign
        for x, e in zip(grid, err):
            if pick and (pick[-1][1] > 0) == (e > 0):
                if abs(e) > abs(pick[-1][1]):
                    pick[-1] = (x, e)
            else:
                pick.append((x, e))
        while len(pick) > n + 1:
            pick.pop(0 if abs(pick[0][1]) < abs(pick[-1][1]) else -1)
        if len(pick) < n + 1:
            break
        xs = [x for x, _ in pick]
    return c, max(abs(e) for e in err)


def rounded(v, fmt):
    return mpf(struct.unpack(fmt, struct.pack(fmt, float(v)))[0])


def fit(name, f, w, powers, a, b, fmt, at_zero=None):
    a, b = mpf(a), mpf(b)
    fixed, left = [], list(powers)
    while left:
        g = lambda x: f(x) - sum(c * x ** p for p, c in fixed)
        c, _ = remez(g, w, left, a, b)
        fixed.append((left.pop(0), rounded(c[0], fmt)))
    err = max(abs((f(x) - sum(c * x ** p for p, c in fixed)) * w(x)) for x in (a + (b - a) * mpf(i) / 4001 for i in range(4002)))
    print(f"/* {name}: error 2^{float(log(err, 2)):.1f} */")
    for p, c in fixed:
        print(f"#define {name}_{p} {float(c).hex()}{'f' if fmt == '<f' else ''}")


def split(name, v, bits, count, tail_fmt):
    """v as `count` parts of `bits` bits and a rounded rest."""
    for i in range(count):
        e = mp.floor(log(v, 2))
        ulp = mpf(2) ** (e - bits + 1)
        part = mp.floor(v / ulp) * ulp
        print(f"#define {name}_{i} {float(part).hex()}")
        v -= part
    print(f"#define {name}_{count} {float(rounded(v, tail_fmt)).hex()}")


eps = mpf(2) ** -60
half_ln2 = log(2) / 2 * mpf('1.001')
fit("EXP_C", lambda r: (exp(r) - 1 - r) / r ** 2 if abs(r) > eps else mpf(1) / 2, lambda r: r ** 2 / exp(r) + mpf(2) ** -20,
    range(5), -half_ln2, half_ln2, "<f")
fit("TANH_C", lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z if z > eps else -mpf(1) / 3, lambda z: z + mpf(2) ** -12,
    range(6), 0, mpf("0.626") ** 2, "<f")
fit("ERF_C", lambda z: erf(sqrt(z)) / sqrt(z) - 1 if z > eps else 2 / sqrt(pi) - 1, lambda z: mpf(1),
    range(7), 0, mpf("0.926") ** 2, "<f")
fit("ERFC_C", lambda x: -log(erfc(x)), lambda x: erfc(x), range(9), mpf("0.92"), mpf("3.93"), "<f")
quarter = pi / 4 * mpf('1.0001')
fit("SIN_C", lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z if z > eps else -mpf(1) / 6, lambda z: z + mpf(2) ** -12,
    range(5), 0, quarter ** 2, "<d")
fit("COS_C", lambda z: (cos(sqrt(z)) - 1 + z / 2) / z ** 2 if z > eps else mpf(1) / 24, lambda z: z ** 2 + mpf(2) ** -12,
    range(5), 0, quarter ** 2, "<d")
s_max = (sqrt(2) - 1) / (sqrt(2) + 1) * mpf('1.001')
fit("LOG_C", lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z if z > eps else mpf(2) / 3,
    lambda z: z + mpf(2) ** -20, range(8), 0, s_max ** 2, "<d")
fit("EXPD_C", lambda r: (exp(r) - 1 - r) / r ** 2 if abs(r) > eps else mpf(1) / 2, lambda r: r ** 2 / exp(r) + mpf(2) ** -40,
    range(11), -half_ln2, half_ln2, "<d")
split("PIO2", pi / 2, 21, 3, "<d")
split("LN2F", log(2), 15, 1, "<f")
split("LN2D", log(2), 32, 1, "<d")
print(f"#define TWO_OVER_PI {float(2 / pi).hex()}")
print(f"#define LOG2E {float(1 / log(2)).hex()}")
words = int(mp.floor(2 / pi * mpf(2) ** 192))
print("2/pi words:", ", ".join(f"0x{(words >> (160 - 32 * i)) & 0xFFFFFFFF:08x}" for i in range(6)))
