/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "model/machine_state.h"
#include <string.h>

#if !SLOW_SWITCH
void machine_switch(void **from, void *to); /* *from = the present stack's pointer; goes on on that of `to` */
#if defined(__x86_64__)
__asm__(".text\n.globl machine_switch\n.type machine_switch, @function\nmachine_switch:\n\t"
        "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret\n"
        ".size machine_switch, .-machine_switch\n");
#else
__asm__(".text\n.globl machine_switch\n.type machine_switch, %function\nmachine_switch:\n\t"
        "sub sp, sp, #160\n\tstp x19, x20, [sp]\n\tstp x21, x22, [sp, #16]\n\tstp x23, x24, [sp, #32]\n\t"
        "stp x25, x26, [sp, #48]\n\tstp x27, x28, [sp, #64]\n\tstp x29, x30, [sp, #80]\n\t"
        "stp d8, d9, [sp, #96]\n\tstp d10, d11, [sp, #112]\n\tstp d12, d13, [sp, #128]\n\tstp d14, d15, [sp, #144]\n\t"
        "mov x9, sp\n\tstr x9, [x0]\n\tmov sp, x1\n\t"
        "ldp x19, x20, [sp]\n\tldp x21, x22, [sp, #16]\n\tldp x23, x24, [sp, #32]\n\t"
        "ldp x25, x26, [sp, #48]\n\tldp x27, x28, [sp, #64]\n\tldp x29, x30, [sp, #80]\n\t"
        "ldp d8, d9, [sp, #96]\n\tldp d10, d11, [sp, #112]\n\tldp d12, d13, [sp, #128]\n\tldp d14, d15, [sp, #144]\n\t"
        "add sp, sp, #160\n\tret\n.size machine_switch, .-machine_switch\n");
#endif
#endif

static void switch_to(struct context *from, struct context *to)
{
#if SLOW_SWITCH
    swapcontext(&from->slow, &to->slow);
#else
    machine_switch(&from->stack, to->stack);
#endif
}

void machine_leave(struct lane *lane)
{
    switch_to(&lane->context, &machine.scheduler);
}

static void live(void)
{
    for (;;) {
        struct lane *const lane = machine.now;
        machine.run->entry();
        lane->wait = OVER;
        machine_leave(lane);
    }
}

/* From the beginning, on a stack of its own. */
static void begin(struct lane *lane)
{
#if SLOW_SWITCH
    getcontext(&lane->context.slow);
    lane->context.slow.uc_stack.ss_sp = lane->stack;
    lane->context.slow.uc_stack.ss_size = STACK_BYTES;
    lane->context.slow.uc_link = NULL;
    makecontext(&lane->context.slow, live, 0);
#elif defined(__x86_64__)
    uintptr_t *const top = (uintptr_t *)((char *)lane->stack + STACK_BYTES - 64); /* a multiple of 16 */
    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = (uintptr_t)live; /* where the switch returns to, as if it had been called from 0 */
    lane->context.stack = top - 8;
#else
    uintptr_t *const top = (uintptr_t *)((char *)lane->stack + STACK_BYTES - 160);
    memset(top, 0, 160);
    top[11] = (uintptr_t)live; /* x30 */
    lane->context.stack = top;
#endif
    lane->is_made = true;
    lane->is_stale = false;
}

void machine_resume(struct lane *lane)
{
    machine.now = lane;
    if (!lane->is_made || lane->is_stale)
        begin(lane);
    switch_to(&machine.scheduler, &lane->context);
    machine.now = NULL;
}
