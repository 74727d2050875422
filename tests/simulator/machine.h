/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A simulated AMD GPU: what is decoded, and what executes. A kernel's machine code is decoded once, from what
 * llvm-objdump prints, into an array of `struct instruction`; each has a function that executes it for a wave. A kernel
 * runs group by group; a group's waves take turns from barrier to barrier, so that each run is the same.
 *
 * The first fault (an access outside its buffer, a race, a value used before it arrived, an instruction that is not
 * known) ends the launch; its text says where. */
#ifndef SIMULATED_MACHINE_H
#define SIMULATED_MACHINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MOST_LANES = 64,
    VECTORS = 512,      /* registers of a lane: 256, and as many accumulators behind them on CDNA */
    ACCUMULATORS = 256, /* the first of those */
    SCALARS = 132,
    MOST_WAVES = 32 /* of a group */
};

/* Scalar registers by number, as the simulator counts: names are the same on all generations, numbers are not. */
enum { VCC = 106, TTMP = 108, NULL_SCALAR = 124, M0 = 125, EXEC = 126, SCC = 128, ZERO = 129 };

enum generation { CDNA2, CDNA3, RDNA3, RDNA4 };

struct chip {
    const char *name;
    enum generation generation;
    int lanes; /* of a wave */
};

/* What outstanding operations count on: loads of device memory, its stores, local memory, scalar loads. */
enum counter { LOADS, STORES, LOCALS, KERNEL, COUNTERS };

struct wave;
struct instruction;
typedef void run_function(struct wave *wave, const struct instruction *i);

enum place { CONSTANT, SCALAR, VECTOR };

struct source {
    enum place place;
    int first, words;          /* registers */
    uint32_t low, high;        /* of a constant */
    uint32_t negate, absolute; /* bits to flip, to keep: 0 where nothing is */
    int shift;                 /* of a part of a register that is meant */
    uint32_t part;             /* its bits; 0: all */
    bool sign_extended;
};

/* Registers that an instruction names, for what may still be on its way to them. */
struct touched {
    enum place place;
    int first, words;
    bool written;
};

/* Which of the hardware's units an instruction keeps busy. Slow: of the vector unit at a quarter of its rate. Hints are
 * taken off before they are issued. */
enum unit { HINT, SCALAR_UNIT, VECTOR_UNIT, SLOW_UNIT, MATRIX_UNIT, LOCAL_UNIT, MEMORY_UNIT, UNITS };

/* What was executed: instructions by unit, and words of a lane that passed local memory's port. */
struct executed {
    uint64_t of[UNITS], local_words;
};

enum { MOST_SOURCES = 5, MOST_TOUCHED = 8 };

struct instruction {
    run_function *run;
    const char *text;
    uint64_t address; /* in the code object */
    struct source source[MOST_SOURCES];
    int sources;
    struct source to, to_mask; /* registers that are written: the result, and a mask of lanes or a carry */
    int offset[2];             /* in bytes */
    int bytes;                 /* of an access */
    int counts[COUNTERS];      /* that s_waitcnt leaves outstanding; -1: any */
    int target;                /* of a branch; else what the function wants to know */
    uint8_t op_sel, op_sel_hi, neg_lo, neg_hi;
    bool clamp, high; /* the result is held in 0 ... 1; it is the upper half of a register */
    float scale;      /* of the result; 0: none */
    bool has_select;  /* the result is a part of its register: `to.part`, `to.shift` */
    bool keeps_rest;
    const struct instruction *other; /* the second operation of a dual instruction */
    struct touched touched[MOST_TOUCHED];
    int touches;
    enum unit unit;
    int local_words;
};

/* Whether a vector register's number is counted from an index: that of the source, or the result's; from the wave's
 * index (CDNA), or from m0 (RDNA). */
enum relative { NOT_RELATIVE, FROM_INDEX, TO_INDEX, FROM_M0, TO_M0 };

struct program {
    const struct chip *chip;
    enum relative relative; /* while it is decoded: what s_set_gpr_idx_on says of what follows */
    struct instruction *code;
    int count;
    char *listing; /* what `text` points into */
};

/* Device memory that a kernel may touch. */
struct region {
    uintptr_t from, to;
    bool writable;
    const char *name;
};

struct kernel_code {
    const char *name;
    uint32_t local_bytes, private_bytes, argument_bytes;
    uint32_t rsrc1, rsrc2, properties;
    uint64_t entry; /* address in the code object */
};

/* One launch, the same for all its groups. */
struct launch {
    const struct program *program;
    const struct kernel_code *kernel;
    const struct region *regions;
    int regions_count;
    const void *arguments, *packet;
    uintptr_t image; /* where the code object's address 0 lies */
    uint32_t local_bytes;
    uint32_t items;     /* of a group */
    uint32_t groups[3]; /* of the launch */
};

/* What each granule of local memory was last written and read by: the number of the stretch between barriers above the
 * wave's number and 1; 0: nothing yet. */
enum { GRANULE = 2, WAVE_BITS = 6, SEVERAL = 63 };

struct group {
    const struct launch *launch;
    uint8_t *local;
    uint32_t *writer, *reader;
    uint32_t stretch;
    struct executed executed;
    jmp_buf ended; /* by a fault */
    char fault[512];
};

struct wave {
    struct group *group;
    int lanes, number, pc;
    bool at_barrier, done, scc;
    uint32_t index; /* of s_set_gpr_idx_on */
    uint64_t exec;
    uint32_t mask[MOST_LANES]; /* all bits of the lanes that are on */
    uint32_t s[SCALARS];
    uint32_t (*v)[MOST_LANES];
    uint8_t *scratch;

    /* Operations so far, by counter, and those of them that a wait has covered; what a register waits for. */
    uint32_t issued[COUNTERS], covered[COUNTERS], last_write[COUNTERS];
    int outstanding;
    struct pending {
        uint32_t number;
        enum counter counter;
    } vector_waits[VECTORS], scalar_waits[SCALARS];
};

/* The descriptor of private memory that waves are given where it is reached through one (CDNA 2), without the wave's
 * offset in bytes, which stands in another register: numbers of which nothing is asked but that they are those. */
enum {
    PRIVATE_LOW = 0x40000000,
    PRIVATE_HIGH = 0x5c7a1,
    PRIVATE_SIZE = 0x5c7a2,
    PRIVATE_FORMAT = 0x5c7a3,
    WAVE_PRIVATE = 0x100000
};

/* Ends the launch. The instruction is NULL where there is none. */
_Noreturn void fault(struct wave *wave, const struct instruction *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Executes one group; false where it ended in a fault, which group->fault says. */
bool group_run(struct group *group, uint32_t x, uint32_t y, uint32_t z);

#endif
