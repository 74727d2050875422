/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What kernel texts for Hopper find in place of cl/unit/nvidia_mma.clh and nvidia_wgmma.clh: their names, on the
 * machine of a model. Waits, arrivals, ballots, copies and words in local memory are what they say. Products are none:
 * accumulators stay as they are, but for those that read dS, which yield the word that hopper_store has left for its
 * tile.
 *
 * The model says what comes of some of them:
 *     model_put, model_get      four words have been written to local memory, or are read, from an item
 *     model_mark                what hopper_store leaves in a panel
 *     model_take, model_give    a bulk copy reads local memory, and changes device memory
 *
 * With MODEL_MUTANT one operation is wrong, which a model has to find: 1, who waits for device memory goes on at once;
 * 2, so does the producer that waits for a barrier; 3, consumers do not hand on their turns; 4, what leaves by bulk is
 * not waited for. */
#ifndef MODEL_MUTANT
#define MODEL_MUTANT 0
#endif

#ifndef MODEL_HOPPER_MACHINE_H
#define MODEL_HOPPER_MACHINE_H

#include "model/opencl_c.h"

#define UNIT_PIECE            16
#define UNIT_LARGEST_OF_THREE 1
#define UNIT_LANES            32
#define UNIT_SLOTS            2
#define UNIT_ELEMENTS         8
#define UNIT_UNROLL
#define UNIT_SLOT(e)               ((e) / 2 % 2)
#define UNIT_SLOT_ELEMENT(slot, n) (2 * (slot) + (n) % 2 + (n) / 2 * 4)
#define UNIT_SELDOM                (void)0
#define UNIT_SHARERS               4
typedef struct {
    float x[UNIT_ELEMENTS];
} unit_accumulator;
typedef struct {
    uint x[4];
} unit_operand;
typedef uint unit_address;
typedef struct {
    int unused;
} unit_dropped_keys;
#define unit_take_dropped unit_take_dropped

static void model_put(unit_address to, int4 x);
static void model_get(unit_address from, int4 x);
static uint model_mark(void);
static uint32_t model_take(const unsigned char *from, int bytes);
static void model_give(void *to, uint32_t taken, bool adds);

CLATTN_INLINE unit_address unit_address_of(const void *array)
{
    (void)array;
    return 0;
}
CLATTN_INLINE int unit_row(int lane, int slot)
{
    return lane / 4 + 8 * slot;
}
CLATTN_INLINE int unit_column(int lane, int e)
{
    return lane % 4 * 2 + e % 2 + 8 * (e / 4);
}
CLATTN_INLINE uint unit_get4(unit_address from)
{
    uint x;
    memcpy(&x, machine_local(from), sizeof x);
    return x;
}
CLATTN_INLINE void unit_put4(unit_address to, uint x)
{
    memcpy(machine_local(to), &x, sizeof x);
}
CLATTN_INLINE uint4 unit_get16(unit_address from)
{
    uint4 x;
    memcpy(&x, machine_local(from), sizeof x);
    return x;
}
CLATTN_INLINE void unit_put16(unit_address to, uint4 x)
{
    memcpy(machine_local(to), &x, sizeof x);
}
CLATTN_INLINE ushort unit_get(unit_address from)
{
    ushort x;
    memcpy(&x, machine_local(from), sizeof x);
    return x;
}
CLATTN_INLINE void unit_put(unit_address to, ushort x)
{
    memcpy(machine_local(to), &x, sizeof x);
}
#define unit_late(x)                 (x)
#define unit_copy16(to, from, bytes) ((void)(to), (void)(from), (void)(bytes))
#define unit_copy_wait()             (void)0
#define unit_load_a(a, from, pitch)  ((void)(from), memset(a, 0, sizeof *(a)))
#define unit_to_left(lane, to, from) ((void)(lane), (void)(from), memset(to, 0, sizeof *(to)))
#define unit_store_by_rows(to, a)    (void)0
#define unit_exp2(x)                 ((void)(x), 1.0f)
#define unit_log2(x)                 ((void)(x), 0.0f)
#define unit_reciprocal(x)           (1.0f / (x))
#define unit_ballot(lane, condition) ((void)(lane), machine_ballot(condition))
#define unit_any(lane, condition)    ((void)(lane), machine_ballot(condition) != 0)
#define unit_first_of(lanes)         ((lanes) ? __builtin_ctz(lanes) : UNIT_LANES)
#define unit_first(lane, condition)  unit_first_of(machine_ballot(condition))

#define unit_bits(x)                  as_uint(x)
#define unit_choose(condition, x, y)  ((condition) ? (x) : (y))
#define unit_row_max(lane, x)         (x)
#define unit_row_sum(lane, x)         (x)
#define unit_lanes_max(lane, x)       (x)
#define unit_lanes_sum(lane, x)       (x)
#define unit_from_lane(lane, x, from) ((void)(lane), (void)(from), x)

/* nvidia_wgmma.clh */
#define HOPPER_ITEMS                                  128
#define HOPPER_PANEL                                  64
#define HOPPER_ROW_BYTES                              (2 * HOPPER_PANEL)
#define HOPPER_PIECE_BYTES                            (2 * UNIT_PIECE)
#define HOPPER_PIECE_ROWS                             (UNIT_PIECE * HOPPER_ROW_BYTES)
#define HOPPER_STEPS(bytes)                           ((ulong)((bytes) / 16))
#define HOPPER_USED(c, a, b)                          ((void)(c), (void)(a), (void)(b))
#define HOPPER_FIRST_PRODUCT(n, c, a, b)              HOPPER_USED(c, a, b)
#define HOPPER_PRODUCT(n, c, a, b)                    HOPPER_USED(c, a, b)
#define HOPPER_FIRST_PRODUCT_OF(n, c, a, b)           HOPPER_USED(c, &(a), b)
#define HOPPER_PRODUCT_OF(n, c, a, b)                 HOPPER_USED(c, &(a), b)
#define HOPPER_PRODUCT_AS_IT_LIES(n, c, a, b)         HOPPER_USED(c, &(a), b)
#define HOPPER_FIRST_PRODUCT_AS_THEY_LIE(n, c, a, b)  hopper_multiply(c, a, b, true)
#define HOPPER_PRODUCT_AS_THEY_LIE(n, c, a, b)        hopper_multiply(c, a, b, false)
#define HOPPER_FIRST_PRODUCT_TURNED(n, c, a, b)       hopper_multiply(c, b, a, true)
#define HOPPER_PRODUCT_TURNED(n, c, a, b)             hopper_multiply(c, b, a, false)
#define HOPPER_FENCE(n, c)                            (void)(c)
#define HOPPER_FENCE_ALONE()                          (void)0
#define HOPPER_WAIT(groups, n, c)                     (void)(c)
#define HOPPER_WAIT_AFTER(groups, n, c, n_done, done) ((void)(c), (void)(done))
#define hopper_commit()                               (void)0
#define hopper_hold(a)                                (void)(a)
#define hopper_rows(tile)                             ((ulong)(tile) >> 4)
#define hopper_columns(tile, panel_bytes)             ((ulong)(tile) >> 4)
#define hopper_publish()                              (void)0
#define hopper_warp_sync()                            (void)0

/* Of 16 rows of dS, or 16 columns as it lies by rows; all that are summed up have to be of one tile, or the result is
 * of none. */
enum { HOPPER_OF_NONE = 0xffffff };
CLATTN_INLINE void hopper_multiply(unit_accumulator *c, ulong a, ulong b, bool first)
{
    const uint word = unit_get4((unit_address)(a << 4));
    (void)b;
    if (first)
        c[0] = (unit_accumulator){{(float)word}};
    else if (c[0].x[0] != (float)word)
        c[0].x[0] = (float)HOPPER_OF_NONE;
}

#define hopper_barrier_create(at, arrivals) machine_barrier_create(at, arrivals)
#define hopper_arrive(at)                   machine_arrive(at, 1)
#define hopper_arrive_copied(at)            machine_arrive(at, 1)
#define hopper_expect(at, bytes)            machine_expect(at, (int)(bytes))
CLATTN_INLINE void hopper_await(unit_address at, uint parity)
{
    if (MODEL_MUTANT != 2 || machine_lid() >= HOPPER_ITEMS)
        machine_await(at, parity);
}
CLATTN_INLINE void hopper_arrive_if(bool condition, unit_address at)
{
    if (condition)
        machine_arrive_alone(at);
}
#define HOPPER_SYNC(id, items)        machine_sync(id, items, true)
#define HOPPER_SYNC_ARRIVE(id, items) (MODEL_MUTANT == 3 ? (void)0 : machine_sync(id, items, false))
#define HOPPER_GIVE_REGISTERS(count)  (void)0
#define HOPPER_TAKE_REGISTERS(count)  (void)0
#define hopper_from_lane(x, lane)     machine_from_lane(x, lane)
#define hopper_uniform(x)             (x)

CLATTN_INLINE void hopper_store(unit_address panel, int piece, int lane, const unit_operand *a)
{
    (void)lane, (void)a;
    if (piece == 0)
        unit_put4(panel, model_mark());
}
/* At each 8 rows, where a product may begin. */
CLATTN_INLINE void hopper_store_turned(unit_address panel, int piece, int lane, const unit_operand *a)
{
    (void)lane, (void)a;
    for (int row = 0; row < UNIT_PIECE; row += 8)
        unit_put4(panel + (uint)(row * HOPPER_ROW_BYTES + piece * HOPPER_PIECE_BYTES), model_mark());
}
CLATTN_INLINE int4 hopper_get_int4(unit_address from)
{
    int4 x;
    machine_maybe_pause();
    memcpy(&x, machine_local(from), sizeof x);
    model_get(from, x);
    return x;
}
CLATTN_INLINE void hopper_put4(unit_address to, int a, int b, int c, int d)
{
    const int4 x = {a, b, c, d};
    memcpy(machine_local(to), &x, sizeof x);
    model_put(to, x);
}
CLATTN_INLINE float4 hopper_get4(unit_address from)
{
    float4 x;
    memcpy(&x, machine_local(from), sizeof x);
    return x;
}
CLATTN_INLINE float2 hopper_get2(unit_address from)
{
    float2 x;
    memcpy(&x, machine_local(from), sizeof x);
    return x;
}
CLATTN_INLINE float2 hopper_get_two(unit_address one, unit_address other)
{
    return (float2){as_float(unit_get4(one)), as_float(unit_get4(other))};
}
#define hopper_bulk_load(to, from, bytes, at)                                                                          \
    ((void)(from), (void)machine_local(to), machine_copy(at, bytes, NULL, 0, 0))
CLATTN_INLINE void hopper_put_float4(unit_address to, float a, float b, float c, float d)
{
    const float4 x = {a, b, c, d};
    memcpy(machine_local(to), &x, sizeof x);
}

#define hopper_bulk_store(to, from, bytes) machine_send(from, to, bytes, model_take, model_give, false)
#define hopper_bulk_add(to, from, bytes)   machine_send(from, to, bytes, model_take, model_give, true)
#define hopper_bulk_wait_read()            (MODEL_MUTANT == 4 ? (void)0 : machine_copies_wait(true))
#define hopper_bulk_wait()                 (MODEL_MUTANT == 4 ? (void)0 : machine_copies_wait(false))

typedef struct {
    ulong base, row, head, batch;
    uint columns, rows, heads, batches;
} hopper_tensor;
CLATTN_INLINE void hopper_descriptor_create(uint *map, hopper_tensor tensor, int box_rows)
{
    (void)tensor;
    map[0] = (uint)box_rows;
}
#define hopper_descriptor_acquire(map) (void)(map)
CLATTN_INLINE void hopper_copy_box(unit_address to, const uint *map, int column, int row, int head, int batch,
                                   unit_address at)
{
    (void)column, (void)row, (void)head, (void)batch;
    (void)machine_local(to);
    machine_copy(at, (int)map[0] * 128, NULL, 0, 0);
}

#define hopper_device_fence()    (void)0
#define hopper_device_put(to, x) (*(to) = (x))
CLATTN_INLINE bool hopper_device_await(const uint *from, uint x, const bool or_more, uint *given_up)
{
    machine_maybe_pause();
    if (MODEL_MUTANT == 1)
        return true;
    return machine_device_await(from, x, or_more, given_up);
}
CLATTN_INLINE uint hopper_device_swap(uint *at, uint x, uint y)
{
    machine_maybe_pause();
    const uint found = *at;
    if (found == x)
        *at = y;
    return found;
}

#endif
