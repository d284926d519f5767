#!/usr/bin/env python3
"""The coefficients of numerics/exp.hpp and numerics/log.hpp: minimax fits by Remez's exchange.

A coefficient is rounded to its type as soon as it is known, lowest power first, and the rest is
fitted again around it, so that the printed error is that of the rounded polynomial. Needs mpmath.
Run it and compare: the headers hold exactly what it prints.
"""
from mpmath import exp, log, lu_solve, matrix, mp, mpf, nstr, sqrt

mp.prec = 200


def rounded(x, bits):
    """x, rounded to nearest in a significand of `bits` bits."""
    m, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), int(e) - bits)


def remez(f, weight, powers, low, high, rounds=8):
    """The polynomial over `powers` for which the greatest |weight * (p - f)| on [low, high] is
    least."""
    n = len(powers) + 1
    points = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (n - 1)) for i in range(n)]
    # Every basis function is 0 at 0, so no point of the exchange may lie there.
    points = [x if abs(x) > (high - low) / 50 else (high - low) / 20 for x in points]
    grid = [low + (high - low) * mpf(i) / 600 for i in range(601)]
    for _ in range(rounds):
        a = matrix(n, n)
        b = matrix(n, 1)
        for i, x in enumerate(points):
            for j, p in enumerate(powers):
                a[i, j] = x**p * weight(x)
            a[i, n - 1] = (-1) ** i
            b[i] = f(x) * weight(x)
        c = lu_solve(a, b)
        coefficients = [c[j] for j in range(n - 1)]
        error = [
            (weight(x) * (sum(k * x**p for k, p in zip(coefficients, powers)) - f(x)), x)
            for x in grid
        ]
        # One extremum of each run of equal sign; keep the n greatest neighbours.
        runs = []
        for e in error:
            if e[0] == 0:
                continue
            if runs and (runs[-1][0] > 0) == (e[0] > 0):
                runs[-1] = max(runs[-1], e, key=lambda v: abs(v[0]))
            else:
                runs.append(e)
        while len(runs) > n:
            runs.pop(0 if abs(runs[0][0]) < abs(runs[-1][0]) else -1)
        if len(runs) < n:
            break
        points = [x for _, x in runs]
    return coefficients


def fit(f, weight, powers, low, high, bits):
    """Rounded coefficients, lowest power first, and the error of the rounded polynomial: the better
    of rounding all at once and of fitting the rest again after each."""
    grid = [low + (high - low) * mpf(i) / 2000 for i in range(2001)]

    def error(c):
        return max(abs(weight(x) * (sum(k * x**p for k, p in zip(c, powers)) - f(x))) for x in grid)

    at_once = [rounded(c, bits) for c in remez(f, weight, powers, low, high)]
    one_by_one = []
    while len(one_by_one) < len(powers):
        known = list(one_by_one)
        rest = remez(lambda x: f(x) - sum(k * x**p for k, p in zip(known, powers)), weight,
                     powers[len(known):], low, high)
        one_by_one.append(rounded(rest[0], bits))
    return min(((error(c), c) for c in (at_once, one_by_one)), key=lambda v: v[0])


def hexadecimal(x, suffix):
    return float(x).hex() + suffix


def show(name, values, suffix, error=None):
    print(f"{name}:" + ("" if error is None else f"  error 2^{nstr(log(error, 2), 5)}"))
    for v in values:
        print(f"    {hexadecimal(v, suffix)}")


def main():
    ln2 = log(mpf(2))
    edge = ln2 / 2 * (1 + mpf(2) ** -10)  # k is rounded, so r can pass ln 2 / 2 by a little
    for bits, suffix, exp_degree, log_degree in ((24, "f", 6, 4), (53, "", 11, 7)):
        high = rounded(ln2, bits)
        show("log2 e", [rounded(1 / ln2, bits)], suffix)
        show("ln 2, high and low", [high, rounded(ln2 - high, bits)], suffix)
        error, c = fit(lambda r: exp(r) - 1 - r, lambda r: exp(-r), list(range(2, exp_degree + 1)),
                       -edge, edge, bits)
        show("exp(r) = 1 + r + c2 r^2 + ...", c, suffix, error)
        if bits == 24:
            half = mpf(1) / 2 * (1 + mpf(2) ** -10)
            error, c = fit(lambda r: mpf(2) ** r, lambda r: mpf(2) ** -r, list(range(6)), -half, half,
                           bits)
            show("2^r = c0 + c1 r + ...", c, suffix, error)
        # log((1 + s) / (1 - s)) = s (2 + c1 z + c2 z^2 + ...), z = s^2; s up to (sqrt 2 - 1)^2.
        top = (sqrt(mpf(2)) - 1) ** 4 * (1 + mpf(2) ** -10)

        def series(z):
            if z == 0:
                return mpf(0)
            s = sqrt(z)
            return log((1 + s) / (1 - s)) / s - 2

        error, c = fit(series, lambda z: 1, list(range(1, log_degree + 1)), mpf(0), top, bits)
        show("log((1 + s) / (1 - s)) / s - 2 = c1 z + c2 z^2 + ...", c, suffix, error)
        # ln 2 for k * high to be exact: its last 11 bits are 0.
        short = rounded(ln2, bits - 11)
        show("ln 2 for log, high and low", [short, rounded(ln2 - short, bits)], suffix)


main()
