/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bench.h"
#include "ring/sharing.h"
#include <clattn/ring.h>
#include <inttypes.h>

const struct option_word ring_sharings[] = {{"even", CLATTN_RING_EVEN}, {"zigzag", CLATTN_RING_ZIGZAG}, {NULL, 0}};

static const struct option_word passes[] = {{"forward", RING_BENCH_FORWARD},
                                            {"backward", RING_BENCH_BACKWARD},
                                            {"both", RING_BENCH_FORWARD | RING_BENCH_BACKWARD},
                                            {NULL, 0}};

/* OPTION_FIELD's. */
struct values {
    struct ring_bench_values bench;
};

static const struct option_spec options[] = {
    INTEGERS("n", bench.n, 1, 1 << 30, "length of Q, K and V, of the whole (default 8192)"),
    INTEGER("n-q", bench.n_q, 1, 1 << 30, "length of Q (default: n)"),
    INTEGER("d", bench.d, 1, CLATTN_MAX_D, "head dimension of Q and K (default 64)"),
    INTEGER("d-v", bench.d_v, 1, CLATTN_MAX_D, "head dimension of V (default: d)"),
    WORD("dtype", "TYPE", bench.dtype, option_dtypes, "fp32 (default), fp16, bf16"),
    {.name = "causal",
     .argument = "CORNER",
     .kind = OPTION_WORD,
     OPTION_FIELD(bench.causal),
     .words = option_causal,
     .optional = true,
     .implied = "bottom-right",
     .help = "rows see no later keys: bottom-right (default), top-left or off"},
    WORD("pass", "NAME", bench.pass, passes, "forward (default), backward or both"),
    INTEGER("batch", bench.batch, 1, 1 << 20, "default 1"),
    INTEGER("heads", bench.heads, 1, 1 << 20, "default 8"),
    INTEGER("kv-heads", bench.kv_heads, 1, 1 << 20, "default: heads"),
    WORD("sharing", "WAY", bench.sharing, ring_sharings,
         "even: a rank has consecutive rows and keys; zigzag: two pieces, of which\n"
         "one is early and one late (default with a causal mask)"),
    WORD("passing", "WHAT", bench.passing, option_passing,
         "what goes from rank to rank: kv, q (rows, and back what came of them) or auto\n"
         "(default), which is fewer bytes"),
    INTEGER("repetitions", bench.repetitions, 1, RING_MOST_REPETITIONS, "default: 5"),
    INTEGER("timeout", bench.timeout, 0, INT32_MAX / 1000,
            "seconds that a rank waits for another (default: as long as it takes)"),
    {.name = "device",
     .argument = "P:D",
     .kind = OPTION_DEVICE,
     OPTION_FIELD(bench.device),
     .help = "of the first rank on each host; others take the platform's next ones in\n"
             "turn (default: from the first GPU on, else the first device)"},
    {.name = "devices",
     .argument = "P:D,...",
     .kind = OPTION_DEVICES,
     OPTION_FIELD(bench.devices),
     .help = "devices of this process that share the sequence, without MPI"},
    INTEGERS("shares", bench.shares, 0, 1 << 20, "how much of it each of them has, in proportion (default: the same)"),
    {.name = "json",
     .argument = "FILE",
     .kind = OPTION_STRING,
     OPTION_FIELD(bench.json),
     .optional = true,
     .implied = "-",
     .help = "write the rows as JSON to FILE; to stdout, instead of the table, without one"},
    FLAG("quiet", bench.quiet, "no progress bar and no warnings"),
    END_OF_OPTIONS,
};

static const struct command_spec ring_bench_command = {
    .name = "ring bench",
    .summary = "Measure rings: tokens a second, and time that ranks waited for messages",
    .synopsis =
        "mpirun -n N clattn bench --grid ring [--n N,...] [--d N] [--dtype TYPE] [--causal] [--pass NAME] [OPTIONS]\n"
        "clattn bench --grid ring --devices P:D,... [OPTIONS]",
    .details =
        "Times are of the host's clock, from arrays in host memory to arrays in host memory, of the slowest rank;\n"
        "medians of calls behind a first one, which compiles. Tokens are rows of the batch. Waited is the largest\n"
        "share of a call that a rank's device had nothing to do for want of a message. Sent is what all ranks sent,\n"
        "or read of each other's keys (--devices); beside it what they send, by shapes and masks alone, where K and V\n"
        "pass, with gradients on their way back, and where Q does, with what came of it.",
    .options = options,
};

int ring_bench_parse(int argc, char **argv, struct ring_bench_values *values, struct failure *failure)
{
    *values = (struct ring_bench_values){
        .n = {1, {8192}}, .d = 64, .batch = 1, .heads = 8, .repetitions = 5, .pass = RING_BENCH_FORWARD, .sharing = -1};
    const int status = options_parse(&ring_bench_command, argc, argv, values, failure);
    if (status)
        return status;
    if (!values->d_v)
        values->d_v = values->d;
    if (!values->kv_heads)
        values->kv_heads = values->heads;
    if (values->sharing < 0)
        values->sharing = values->causal ? CLATTN_RING_ZIGZAG : CLATTN_RING_EVEN;
    if (values->shares.count && values->shares.count != values->devices.count)
        return fail(failure, STATUS_USAGE, "--shares has %d numbers and --devices %d: one for each device",
                    values->shares.count, values->devices.count);
    if (values->heads % values->kv_heads)
        return fail(failure, STATUS_USAGE, "--kv-heads %" PRId64 ": it must divide --heads %" PRId64, values->kv_heads,
                    values->heads);
    return STATUS_OK;
}
