#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judges clattn's and PyTorch's attention by float64: random problems of all features, forward and backward.

Each problem is computed three times: by `clattn run`, by PyTorch's own operations in float32 (matmul, softmax, autograd: its
math path, and the features that this lacks written out), and by the same operations in float64. An error is the largest
difference from float64; a ratio is clattn's error over PyTorch's, which counts as at least one rounding of the tensor's largest
value. Printed are the median, the 95th and 99th percentile and the largest ratio of each tensor, for clattn and, with
--baseline, for another build of it on the same problems. --itself prints them for PyTorch beside itself, too, with head dimensions
summed the other way round: what chance alone makes of the ratio, which is much where a tensor has few numbers. With --orders N
PyTorch's error is the root mean square of N, each with head dimensions summed in an order of its own: what it is expected to be.

    exactness.py --clattn build/tools/clattn --baseline old/tools/clattn --problems 500

With --dtype fp16 or bf16 the arrays are of that type, and PyTorch computes in float32 and rounds its results, as its math path
does.

Features come in kinds, since each set of them is another kernel to compile: --kinds of them, with as many draws of sizes and
values each as make up --problems. Needs PyTorch and NumPy.

An interrupt ends the run, and what there is by then is printed. With --jobs N that many processes take the problems by turns.
With --lines each problem's row is written to a file as soon as it is judged, and problems whose rows are there already are
not judged again, so that a run which was ended goes on; exactness_table.py makes the table of such files.

Exit status: 0 success, 1 a percentile is above its --limit, 2 usage or PyTorch missing, 4 clattn failed.
"""
import argparse
import ctypes
import ctypes.util
import functools
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time

from judged import LEAST, TYPES, np, run, save, stop, torch

FEATURES = ("window", "softcap", "alibi", "bias", "mask", "block_mask", "key_lengths", "varlen", "sinks", "dropout")
SIZES = (16, 32, 40, 64, 64, 80, 96, 128, 128, 192, 256)
CAUSAL = ("off", "off", "bottom-right", "top-left")
OUTPUTS = ("o", "lse", "dq", "dk", "dv", "dbias", "dsink")
REVERSED = -1
OF_DTYPE = ("q", "k", "v", "grad-out", "bias")  # the others are fp32


def draw_kind(random, number):
    """What a kernel is compiled for. The first kinds have no features, the last have all."""
    kind = {"d": int(random.choice(SIZES)), "causal": str(random.choice(CAUSAL)), "features": []}
    kind["d_v"] = kind["d"] if random.random() < 0.7 else int(random.choice(SIZES))
    if number % 8 == 7:
        kind["features"] = [name for name in FEATURES if name != "key_lengths"]
    elif number % 4:
        count = int(random.integers(1, 5))
        kind["features"] = [str(name) for name in random.choice(FEATURES, count, replace=False)]
    if "varlen" in kind["features"] and "key_lengths" in kind["features"]:
        kind["features"].remove("key_lengths")  # a sequence has its own length
    kind["block"] = [int(16 * random.integers(1, 5)), int(16 * random.integers(1, 5))]
    return kind


def draw_lengths(random, batch, most):
    return np.concatenate([[0], np.cumsum(random.integers(0, most + 1, batch))]).astype(np.int32)


def draw_problem(random, kind):
    """Sizes and arrays of one problem; the keys are those of `clattn run`'s options."""
    features, arrays, words = kind["features"], {}, []
    batch, heads = int(random.integers(1, 4)), int(random.choice((1, 2, 4)))
    kv_heads = int(random.choice([n for n in (1, 2, 4) if heads % n == 0]))
    n_q, n_kv = (int(2 ** random.uniform(2, 9)) for _ in range(2))
    size = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "n_q": n_q, "n_kv": n_kv}
    rows, keys = n_q, n_kv
    if "varlen" in features:
        size["cu_q"], size["cu_kv"] = draw_lengths(random, batch, n_q), draw_lengths(random, batch, n_kv)
        size["cu_q"][-1], size["cu_kv"][-1] = max(1, size["cu_q"][-1]), max(1, size["cu_kv"][-1])
        rows, keys = int(size["cu_q"][-1]), int(size["cu_kv"][-1])
        size["n_q"], size["n_kv"] = int(np.diff(size["cu_q"]).max()), int(np.diff(size["cu_kv"]).max())
        arrays["cu-seqlens-q"], arrays["cu-seqlens-kv"] = size["cu_q"], size["cu_kv"]
    spread = float(random.choice((0.5, 1.0, 1.0, 2.0)))
    lead = () if "varlen" in features else (batch,)

    def normal(*shape):
        return random.standard_normal(shape).astype(np.float32)
    arrays["q"], arrays["k"] = spread * normal(*lead, heads, rows, kind["d"]), spread * normal(*lead, kv_heads, keys, kind["d"])
    arrays["v"], arrays["grad-out"] = normal(*lead, kv_heads, keys, kind["d_v"]), normal(*lead, heads, rows, kind["d_v"])
    n_q, n_kv, (block_q, block_kv) = size["n_q"], size["n_kv"], kind["block"]
    if "window" in features:
        size["window"] = [int(random.integers(-1, n_kv + 1)) for _ in range(2)]
        words.append("--window=%d,%d" % tuple(size["window"]))
    if "softcap" in features:
        size["softcap"] = float(random.uniform(2, 30))
        words.append("--softcap=%r" % size["softcap"])
    if "alibi" in features:
        arrays["alibi"] = (2.0 ** -random.integers(1, 9, heads)).astype(np.float32)
    if "bias" in features:
        arrays["bias"] = normal(int(random.choice((1, batch))), int(random.choice((1, heads))), n_q, n_kv)
    if "mask" in features:
        arrays["mask"] = random.random((1, heads, n_q, n_kv)) < 0.8
    if "block_mask" in features:
        arrays["block-mask"] = random.random((batch, heads, -(-n_q // block_q), -(-n_kv // block_kv))) < 0.7
        words.append("--block-size=%d,%d" % (block_q, block_kv))
    if "key_lengths" in features:
        arrays["key-lengths"] = random.integers(0, n_kv + 1, batch).astype(np.int32)
    if "sinks" in features:
        arrays["sink"] = normal(heads)
    if "dropout" in features:
        size["dropout"], size["seed"] = float(random.choice((0.1, 0.25, 0.5))), int(random.integers(1, 1 << 30))
        words += ["--dropout=%r" % size["dropout"], "--seed=%d" % size["seed"]]
    return size, arrays, words


def rounded(array, dtype):
    return torch.from_numpy(array).to(TYPES[dtype])


def run_clattn(command, kind, arrays, words, arguments, folder):
    """The outputs, by name; or what went wrong."""
    call = [command, "run", "--quiet", "--dtype=" + arguments.dtype, "--causal=" + kind["causal"], *words,
            *arguments.extra]
    for name, array in arrays.items():
        if arguments.forward and name == "grad-out":
            continue
        path = os.path.join(folder, name + ".npy")
        save(path, rounded(array, arguments.dtype) if name in OF_DTYPE else torch.from_numpy(array))
        call += ["--" + name, path]
    wanted = {"o": "out", "lse": "lse"}
    if arguments.forward:
        return run(call, wanted, folder)
    wanted.update({"dq": "dq", "dk": "dk", "dv": "dv"})
    wanted.update({"dbias": "dbias"} if "bias" in arrays else {})
    wanted.update({"dsink": "dsink"} if "sink" in arrays else {})
    return run(call, wanted, folder)


def kept_by_dropout(library, size, b, rows, keys):
    """The share 1 / (1 - p) where a pair is kept, else 0, for all heads."""
    mask = np.zeros((size["heads"], rows, keys), np.uint8)
    for h in range(size["heads"]):
        status = library.clattn_dropout_mask(
            ctypes.c_float(size["dropout"]), ctypes.c_uint64(size["seed"]), ctypes.c_uint32(0), ctypes.c_int64(size["heads"]),
            ctypes.c_int64(b), ctypes.c_int64(h), ctypes.c_int64(0), ctypes.c_int64(rows), ctypes.c_int64(0),
            ctypes.c_int64(keys), mask[h].ctypes.data_as(ctypes.c_void_p))
        if status:
            stop(4, "clattn_dropout_mask: status %d" % status)
    return torch.from_numpy(mask.astype(np.float64) / (1.0 - round(4096 * size["dropout"]) / 4096))


def visible(kind, size, arrays, b, rows, keys):
    """[heads, rows, keys]: which pairs there are."""
    i, j, seen = torch.arange(rows)[:, None], torch.arange(keys)[None, :], torch.ones(size["heads"], rows, keys, dtype=torch.bool)
    shift = 0 if kind["causal"] == "top-left" else keys - rows
    if kind["causal"] != "off":
        seen &= j <= i + shift
    if "window" in size:
        left, right = size["window"]
        seen &= (left < 0) | (j >= i + shift - left)
        seen &= (right < 0) | (j <= i + shift + right)
    if "mask" in arrays:
        seen &= torch.from_numpy(arrays["mask"])[0, :, :rows, :keys]
    if "block-mask" in arrays:
        whole = torch.from_numpy(arrays["block-mask"])[b].repeat_interleave(kind["block"][0], 1)
        seen &= whole.repeat_interleave(kind["block"][1], 2)[:, :rows, :keys]
    return seen, shift


def order_of(x, order):
    """The columns of x in order 0 (as they are), REVERSED, or one of the random ones."""
    columns = torch.arange(x.shape[-1])
    if order in (0, REVERSED):
        return columns.flip(0) if order else columns
    return torch.from_numpy(np.random.default_rng(order).permutation(x.shape[-1]))


def summed_in_order(x, order):
    return x.index_select(-1, order_of(x, order))


def attend(kind, size, arrays, tensors, b, of_rows, of_keys, library, order):
    """One batch element (sequence): O and LSE by plain operations in the tensors' type."""
    q, k, v = tensors["q"][..., of_rows, :], tensors["k"][..., of_keys, :], tensors["v"][..., of_keys, :]
    if order:
        (q, k), v = (summed_in_order(x, order) for x in (q, k)), summed_in_order(v, order)
    if "cu_q" not in size:
        q, k, v = q[b], k[b], v[b]
        if "key-lengths" in arrays:
            length = int(arrays["key-lengths"][b])
            k, v = k[:, :length], v[:, :length]
    rows, keys, shared = q.shape[1], k.shape[1], size["heads"] // size["kv_heads"]
    factor = kind["d"] ** -0.25  # of Q and of K, as PyTorch's own math path has it
    scores = (q * factor) @ (k * factor).repeat_interleave(shared, 0).transpose(1, 2)
    if "softcap" in size:
        cap = float(np.float32(size["softcap"]))
        scores = cap * torch.tanh(scores / cap)
    seen, shift = visible(kind, size, arrays, b, rows, keys)
    if "alibi" in tensors:
        scores = scores - tensors["alibi"][:, None, None] * (torch.arange(rows)[:, None] + shift - torch.arange(keys)).abs()
    if "bias" in tensors:
        bias = tensors["bias"]
        scores = scores + bias[b if bias.shape[0] > 1 else 0, :, :rows, :keys]
    scores = scores.masked_fill(~seen, float("-inf"))
    if "sink" in tensors:
        scores = torch.cat([scores, tensors["sink"][:, None, None].expand(-1, rows, 1)], 2)
    elif not keys:
        return q.new_zeros(size["heads"], rows, kind["d_v"]), q.new_full((size["heads"], rows), float("-inf"))
    none = (scores == float("-inf")).all(2, keepdim=True)
    weights = torch.softmax(scores.masked_fill(none, 0.0), 2).masked_fill(none, 0.0)[..., :keys]
    if "dropout" in size:
        weights = weights * kept_by_dropout(library, size, b, rows, keys).to(weights.dtype)
    o = weights @ v.repeat_interleave(shared, 0)
    if order:
        o = torch.empty_like(o).index_copy(-1, order_of(o, order), o)
    return o, torch.logsumexp(scores, 2)


def run_torch(kind, size, arrays, dtype, arguments, order=0):
    """The outputs by plain operations; order: that in which head dimensions are summed (order_of)."""
    names = {"q": "dq", "k": "dk", "v": "dv", "bias": "dbias", "sink": "dsink"}
    tensors = {name: torch.from_numpy(arrays[name]).to(dtype).requires_grad_(name in names)
               for name in (*names, "alibi") if name in arrays}
    parts, lses = [], []
    for b in range(size["batch"]):
        of_rows, of_keys = slice(None), slice(None)
        if "cu_q" in size:
            of_rows, of_keys = (slice(int(size[at][b]), int(size[at][b + 1])) for at in ("cu_q", "cu_kv"))
        o, lse = attend(kind, size, arrays, tensors, b, of_rows, of_keys, library_of(arguments.clattn), order)
        parts.append(o)
        lses.append(lse)
    join = (lambda all_: torch.cat(all_, 1)) if "cu_q" in size else torch.stack
    o, lse = join(parts), join(lses)
    wanted = [name for name in names if name in tensors and not arguments.forward]
    grads = [None] * len(wanted)
    if wanted and o.requires_grad:  # some row sees a key
        grads = torch.autograd.grad(o, [tensors[name] for name in wanted], torch.from_numpy(arrays["grad-out"]).to(dtype),
                                    allow_unused=True)
    result = {"o": o, "lse": lse}
    for name, grad in zip(wanted, grads):
        result[names[name]] = torch.zeros_like(tensors[name]) if grad is None else grad
    return {name: tensor.detach().double().numpy() for name, tensor in result.items()}


def error_of(values, truth):
    same = values.reshape(truth.shape)
    with np.errstate(invalid="ignore"):
        difference = np.where(same == truth, 0.0, np.abs(same - truth))
    return float(difference.max(initial=0.0))


def errors_of(values, truth):
    """The largest error of each tensor of which something is seen."""
    return {name: error_of(values[name], truth[name]) for name in values if size_of(truth[name])}


def size_of(truth):
    return float(np.abs(truth[np.isfinite(truth)]).max(initial=0.0))


def ratios(ours, peers, least):
    """Our errors over the root mean square of those of the peers, which count as `least` at least."""
    return {name: error / max(float(np.sqrt(np.mean([peer[name] ** 2 for peer in peers]))), least[name])
            for name, error in ours.items()}


def percentiles(values):
    return [float(x) for x in (*np.percentile(values, (50, 95, 99)), max(values))]


def print_table(title, found):
    print("%s\n%-8s %8s %8s %8s %8s %8s" % (title, "tensor", "problems", "median", "95th", "99th", "largest"))
    for name in OUTPUTS:
        if found.get(name):
            print("%-8s %8d %8.2f %8.2f %8.2f %8.2f" % (name, len(found[name]), *percentiles(found[name])))
    sys.stdout.flush()


@functools.lru_cache(None)
def library_of(command):
    """libclattn of a build folder, for dropout's mask."""
    built = os.path.join(os.path.dirname(os.path.abspath(command)), "..", "src")
    names = [os.path.join(built, name) for name in sorted(os.listdir(built)) if name.startswith("libclattn.so")] \
        if os.path.isdir(built) else []
    return ctypes.CDLL(names[0] if names else ctypes.util.find_library("clattn"))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clattn", metavar="PATH", default="clattn", help="the command (default: the one in PATH)")
    parser.add_argument("--baseline", metavar="PATH", help="another build's command")
    parser.add_argument("--itself", action="store_true", help="PyTorch beside itself, too")
    parser.add_argument("--orders", metavar="N", type=int, default=1, help="PyTorch's error is the root mean square of N orders'")
    parser.add_argument("--dtype", choices=list(LEAST), default="fp32")
    parser.add_argument("--forward", action="store_true", help="O and LSE alone")
    parser.add_argument("--problems", metavar="N", type=int, default=500)
    parser.add_argument("--first", metavar="N", type=int, default=0, help="the number of the first")
    parser.add_argument("--every", metavar="N", type=int, default=1, help="one in N of the numbers; 48: of one kind")
    parser.add_argument("--kinds", metavar="N", type=int, default=48, help="sets of features and head dimensions")
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    parser.add_argument("--extra", metavar="WORD", action="append", default=[], help="further words for `clattn run`")
    parser.add_argument("--limit", metavar="TENSOR=RATIO", action="append", default=[], help="fail where a 99th percentile is more")
    parser.add_argument("--worst", metavar="N", type=int, default=0, help="name the problems with the largest ratios")
    parser.add_argument("--json", metavar="FILE", help="write all ratios there")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes, of one thread of PyTorch's each")
    parser.add_argument("--lines", metavar="FILE", help="a row of each problem, in lines; what it holds is not judged again")
    parser.add_argument("--seconds", metavar="S", type=float, default=float("inf"), help="begin no problem after that time")
    return parser.parse_args()


def judge(arguments, commands, folder, n):
    """The ratios of one problem, by command; and what it was."""
    number = n % arguments.kinds
    kind = draw_kind(np.random.default_rng([arguments.seed, number]), number)
    size, arrays, words = draw_problem(np.random.default_rng([arguments.seed, number, n]), kind)
    for name in set(OF_DTYPE) & set(arrays):
        arrays[name] = rounded(arrays[name], arguments.dtype).float().numpy()
    truth = run_torch(kind, size, arrays, torch.float64, arguments)
    least = {name: LEAST[arguments.dtype] * size_of(truth[name]) for name in truth}
    errors = {"least": least}
    for order in (*range(arguments.orders), *([REVERSED] if arguments.itself else [])):
        run = run_torch(kind, size, arrays, torch.float32, arguments, order)
        for name in run:
            run[name] = rounded(run[name], "fp32" if name in ("lse", "dsink") else arguments.dtype).double().numpy()
        errors["itself" if order == REVERSED else "order %d" % order] = errors_of(run, truth)
    peers = [errors["order %d" % order] for order in range(arguments.orders)]
    for name, command in commands.items():
        errors[name] = errors_of(run_clattn(command, kind, arrays, words, arguments, folder), truth)
    row = {"problem": n, "kind": kind, "shape": {key: value for key, value in size.items() if key[:2] != "cu"}, "errors": errors}
    for name in (*commands, *(["itself"] if arguments.itself else [])):
        row[name] = ratios(errors[name], peers, least)
    return row


def judge_one(work):
    """One problem in a folder of its own; a problem on which the command fails has no row, and the others go on."""
    arguments, commands, n = work
    if time.time() > arguments.ends:
        return n, None, 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            return n, judge(arguments, commands, folder, n), 0
        except SystemExit as error:
            return n, None, error.code


def begin_job(folder):
    """The parent alone hears an interrupt; it ends its jobs. Each has a cache of PoCL's own: PoCL may fail where two fill one."""
    os.environ["POCL_CACHE_DIR"] = os.path.join(folder, str(os.getpid()))
    os.mkdir(os.environ["POCL_CACHE_DIR"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)


def rows_of_lines(path):
    """The rows by their numbers; a last line that was cut off is judged again."""
    rows = {}
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    row = json.loads(line)
                    rows[row["problem"]] = row
    return rows


def keep_row(path, row):
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def judge_apart(arguments, work):
    """What judge_one gives of each, in any order; by several processes where --jobs says so."""
    if arguments.jobs == 1:
        yield from map(judge_one, work)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with multiprocessing.get_context("fork").Pool(arguments.jobs, begin_job, (folder,)) as pool:
            yield from pool.imap_unordered(judge_one, work)


def judge_all(arguments, commands):
    """All rows, in order; and the status of a command that failed."""
    numbers = range(arguments.first, arguments.first + arguments.problems * arguments.every, arguments.every)
    rows, failed = {n: row for n, row in rows_of_lines(arguments.lines).items() if n in numbers}, 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for n, row, status in judge_apart(arguments, [(arguments, commands, n) for n in numbers if n not in rows]):
            failed = failed or status
            if row:
                rows[n] = row
                keep_row(arguments.lines, row)
    except KeyboardInterrupt:
        pass
    if len(rows) < len(numbers):
        print("%d of %d problems were judged" % (len(rows), len(numbers)))
    return [rows[n] for n in sorted(rows)], failed


def main():
    arguments = parse_arguments()
    commands = {"clattn": arguments.clattn, **({"baseline": arguments.baseline} if arguments.baseline else {})}
    arguments.ends = time.time() + arguments.seconds
    rows, failed = judge_all(arguments, commands)
    names = [*commands, "itself"] if arguments.itself else list(commands)
    found = {name: {tensor: [row[name][tensor] for row in rows if tensor in row[name]] for tensor in OUTPUTS} for name in names}
    for name in names:
        print_table("%s: %s, error over that of PyTorch %s" % (commands.get(name, "PyTorch"), arguments.dtype, torch.__version__),
                    found[name])
    for row in sorted(rows, key=lambda row: -max(row["clattn"].values(), default=0.0))[:arguments.worst]:
        print(json.dumps(row))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    for limit in arguments.limit:
        tensor, most = limit.split("=")
        if percentiles(found["clattn"][tensor])[2] > float(most):
            stop(1, "%s: the 99th percentile is above %s" % (tensor, most))
    if failed:
        sys.exit(failed)


main()
