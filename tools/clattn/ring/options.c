/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/options.h"
#include "ring/sharing.h"
#include <clattn/ring.h>

static const struct option_word layouts[] = {{"bhnd", RUN_BHND}, {"bnhd", RUN_BNHD}, {NULL, 0}};

static const struct option_spec options[] = {
    TEXT("q", "FILE", inputs[0], "queries, a .npy array as clattn run takes it, of all rows"),
    TEXT("k", "FILE", inputs[1], "keys; fewer heads than Q mean grouped queries"),
    TEXT("v", "FILE", inputs[2], "values; their d may differ from that of Q and K"),
    TEXT("out", "FILE", outputs[RUN_O], "where O goes, as .npy, in the layout of Q"),
    TEXT("lse", "FILE", outputs[RUN_LSE], "where the log-sum-exp of each row goes"),
    TEXT("m", "FILE", outputs[RUN_M], "where each row's maximum goes"),
    TEXT("l", "FILE", outputs[RUN_L], "where each row's sum of exponentials goes"),
    WORD("dtype", "TYPE", dtype, option_dtypes, "what Q must hold; bf16 is stored as uint16 and must be said"),
    WORD("layout", "ORDER", layout, layouts, "bhnd (default) or bnhd: [batch, n, heads, d]"),
    CAUSAL("rows see no later keys: bottom-right (default), top-left or off"),
    NUMBER("scale", "X", scale, "factor of the scores (default: 1 / sqrt(d))"),
    FEATURES(score.features),
    TEXT("grad-out", "FILE", inputs[3], "dO, the gradient by O, of O's shape: then any of the following"),
    TEXT("dq", "FILE", outputs[RUN_D_Q], "where the gradient by Q goes"),
    TEXT("dk", "FILE", outputs[RUN_D_K], "by K"),
    TEXT("dv", "FILE", outputs[RUN_D_V], "by V"),
    TEXT("dbias", "FILE", outputs[RUN_D_BIAS], "by the bias, of its shape"),
    TEXT("dsink", "FILE", outputs[RUN_D_SINKS], "by the sinks"),
    DEVICE("of the first rank on each host; others take the platform's next ones in\n"
           "turn (default: from the first GPU on, else the first device)"),
    {.name = "sharing",
     .argument = "WAY",
     .kind = OPTION_WORD,
     .field = offsetof(struct ring_values, sharing),
     .words = ring_sharings,
     .help = "even: a rank has consecutive rows and keys; zigzag: two pieces, of which\n"
             "one is early and one late (default with a causal mask)"},
    WORD("passing", "WHAT", passing, option_passing,
         "what goes from rank to rank: kv, q (rows, and back what came of them) or auto\n"
         "(default), which is fewer bytes"),
    {.name = "timeout",
     .argument = "N",
     .kind = OPTION_INTEGER,
     .field = offsetof(struct ring_values, timeout),
     .minimum = 0,
     .maximum = INT32_MAX / 1000,
     .help = "seconds that a rank waits for another (default: as long as it takes)"},
    FLAG("quiet", quiet, "no summary, no progress bar and no warnings"),
    END_OF_OPTIONS,
};

static const struct option_need needs[] = {{"dbias", "bias FILE"}, {"dsink", "sink FILE"}, {NULL, NULL}};

static const struct command_spec ring_command = {
    .name = "ring",
    .summary = "Compute attention, and its gradients, on .npy arrays that ranks of MPI share",
    .synopsis = "mpirun -n N clattn ring --q Q.npy --k K.npy --v V.npy --out O.npy [OPTIONS]\n"
                "mpirun -n N clattn ring [OPTIONS] --grad-out dO.npy --dq dQ.npy --dk dK.npy --dv dV.npy\n"
                "mpirun -n N clattn ring bench --help",
    .details =
        "Each rank maps the files and reads its part of them; rank 0 gathers the outputs, which appear together\n"
        "when all have been computed and written, or not at all.",
    .options = options,
    .needs = needs,
};

int ring_options_parse(int argc, char **argv, struct ring_values *values, struct failure *failure)
{
    *values = (struct ring_values){.run = {.dtype = -1, .k_format = -1, .v_format = -1}, .sharing = -1};
    const int status = options_parse(&ring_command, argc, argv, values, failure);
    if (!status && values->sharing < 0)
        values->sharing = values->run.causal ? CLATTN_RING_ZIGZAG : CLATTN_RING_EVEN;
    return status ? status : run_options_check(&ring_command, &values->run, failure);
}
