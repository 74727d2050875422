# SPDX-License-Identifier: BSD-2-Clause
"""Attention with every modification of its scores, and its gradients, in plain Python: what clattn(1) is compared with."""
import math


def philox(counter, key):
    """Philox 4x32-7: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""
    a, b, c, d = counter
    low, high = key
    for _ in range(7):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ low, q & 0xffffffff, p >> 32 ^ d ^ high, p & 0xffffffff
        low, high = low + 0x9E3779B9 & 0xffffffff, high + 0xBB67AE85 & 0xffffffff
    return a, b, c, d


# Words of a call by number, turned by so many bits and with their block; 4 and 5 are 0 and 1 without a block's turn.
LEAVES = (((3, 18), (4, 0), (2, 2), (1, 0), (0, 9), (1, 15)), ((1, 0), (3, 0), (5, 0), (0, 1), (3, 21), (1, 6)))
CENTRES = ((0, 0), (2, 0))


def dropout(p, seed, offset, heads):
    """What a weight is multiplied by: 0, or 1 over the share that is kept. 12 digits of a number decide about a pair."""
    threshold = round(4096 * p)

    def factor(b, h, i, j):
        group, line, block, half = (j >> 9) * 4 + (j >> 1 & 3), (i >> 4) * 8 + (i & 7), j >> 7 & 3, j >> 6 & 1
        call = philox((group, line, b * heads + h, offset), (seed & 0xffffffff, seed >> 32))
        place = (j >> 4 & 3) * 8 + (j >> 3 & 1) * 4 + (i >> 3 & 1) * 2 + (j & 1)

        def digit(word, by):
            turn = (1, -1, 13, -13, 0, 0)[word] * (15 * block + 24) + by
            return call[word % 4] >> (place - turn) % 32 & 1
        ones = [digit(*leaf) ^ digit(*CENTRES[half]) for leaf in LEAVES[half]]
        ones += [digit(*leaf) for leaf in reversed(LEAVES[1 - half])]
        number = sum(2 ** (11 - n) for n, one in enumerate(ones) if not one)
        return 0.0 if number < threshold else 4096.0 / (4096 - threshold)
    return factor


class Modified:
    """One problem. What a feature needs is a function of (b, h, i, j), a list, or None for none of it."""

    def __init__(self, shape, d, d_v, causal="off", scale=None, window=None, softcap=None, slope=None, bias=None,
                 shown=None, key_lengths=None, sinks=None, factor=None, score_mod=None, first_b=0,
                 d_lse=None, row_shifts=None, query_lengths=None, window_corner=None, sink_keys=0, tree=None):
        self.batch, self.heads, self.kv_heads, self.n_q, self.n_kv = shape
        self.d, self.d_v, self.causal, self.scale = d, d_v, causal, scale or 1.0 / math.sqrt(d)
        self.window, self.softcap, self.slope, self.bias, self.shown = window, softcap, slope, bias, shown
        self.key_lengths, self.sinks, self.factor, self.score_mod = key_lengths, sinks, factor, score_mod
        self.row_shifts, self.query_lengths, self.window_corner = row_shifts, query_lengths, window_corner
        self.sink_keys = sink_keys
        self.tree_keys, self.tree = tree or (0, None)  # a function of (b, h, i, bit)
        self.d_lse = d_lse  # of each row, in the order of LSE
        self.first_b = first_b  # the number of the first batch element

    def corner(self, name, b, keys):
        """What rows are aligned by."""
        rows = self.query_lengths[b] if self.query_lengths else self.n_q
        return 0 if name == "top-left" else keys - rows

    def hidden(self, b, h, i, j, shift, keys):
        left, right = self.window or (-1, -1)
        place = i + (self.corner(self.window_corner, b, keys) if self.window_corner else shift)
        bit = j - (keys - self.tree_keys)
        return (self.causal != "off" and j > i + shift or left >= 0 and self.sink_keys <= j < place - left or
                right >= 0 and j > place + right or self.tree and bit >= 0 and not self.tree(b, h, i, bit) or self.shown and not self.shown(b, h, i, j))

    def score(self, s, b, h, i, j, shift):
        """The score, modified, and its derivative."""
        slope = 1.0
        if self.softcap:
            t = math.tanh(s / self.softcap)
            s, slope = self.softcap * t, 1.0 - t * t
        if self.slope:
            s -= self.slope(b, h) * abs(i + shift - j)
        if self.bias:
            s += self.bias(b, h, i, j)
        if self.score_mod:
            s, more = self.score_mod(s, b, h, i, j)
            slope *= more
        return s, slope

    def row(self, q_row, k_row, b, h, i):
        """The keys that row i sees: j, score, its derivative."""
        keys = self.key_lengths[b] if self.key_lengths else self.n_kv
        shift = self.row_shifts[b] if self.row_shifts else self.corner(self.causal, b, keys)
        cells = []
        for j in range(keys):
            if not self.hidden(b, h, i, j, shift, keys):
                s, slope = self.score(self.scale * sum(x * y for x, y in zip(q_row, k_row(j))), b, h, i, j, shift)
                if s != -math.inf:
                    cells.append((j, s, slope))
        return cells

    def compute(self, q, k, v, d_o=None):
        """A dictionary of lists: o, lse, m and l; with d_o also dq, dk, dv and dsink, and ds, the gradient by the scores before
        softmax (which is that by a bias of full size) as a dictionary of (b, h, i, j)."""
        d, d_v = self.d, self.d_v
        out = {"o": [], "lse": [], "m": [], "l": [], "dq": [0.0] * len(q), "dk": [0.0] * len(k), "dv": [0.0] * len(v),
               "dsink": [0.0] * self.heads, "ds": {}}
        for b in range(self.batch):
            for h in range(self.heads):
                first = (b * self.kv_heads + h // (self.heads // self.kv_heads)) * self.n_kv
                for i in range(self.n_q):
                    at = (b * self.heads + h) * self.n_q + i
                    self.compute_row(q, k, v, d_o, out, b + self.first_b, h, i, at, first, d, d_v)
        return out

    def compute_row(self, q, k, v, d_o, out, b, h, i, at, first, d, d_v):
        if self.query_lengths and i >= self.query_lengths[b]:
            out["o"] += [0.0] * d_v
            for name in ("lse", "m", "l"):
                out[name].append(0.0)
            return
        cells = self.row(q[at * d:][:d], lambda j: k[(first + j) * d:][:d], b, h, i)
        sink = self.sinks[h] if self.sinks else -math.inf
        m = max([s for _, s, _ in cells] + [sink])
        l = sum(math.exp(s - m) for _, s, _ in cells) + (math.exp(sink - m) if sink != -math.inf else 0.0)
        weights = [math.exp(s - m) / l for _, s, _ in cells]
        kept = [self.factor(b, h, i, j) if self.factor else 1.0 for j, _, _ in cells]
        o = [sum(p * f * v[(first + j) * d_v + c] for p, f, (j, _, _) in zip(weights, kept, cells)) for c in range(d_v)]
        out["o"] += o
        out["m"].append(m)
        out["l"].append(l)
        out["lse"].append(m + math.log(l) if l else -math.inf)
        if d_o is None:
            return
        row = d_o[at * d_v:][:d_v]
        delta = sum(x * y for x, y in zip(row, o)) - (self.d_lse[at] if self.d_lse else 0.0)
        if sink != -math.inf:
            out["dsink"][h] -= math.exp(sink - m) / l * delta
        for p, f, (j, _, slope) in zip(weights, kept, cells):
            d_p = f * sum(row[c] * v[(first + j) * d_v + c] for c in range(d_v))
            d_s = p * (d_p - delta)
            # By the bias it is without what score_mod makes of it; the tests have one or the other.
            out["ds"][b, h, i, j] = d_s
            for c in range(d_v):
                out["dv"][(first + j) * d_v + c] += p * f * row[c]
            for c in range(d):
                out["dq"][at * d + c] += self.scale * slope * d_s * k[(first + j) * d + c]
                out["dk"][(first + j) * d + c] += self.scale * slope * d_s * q[at * d + c]
