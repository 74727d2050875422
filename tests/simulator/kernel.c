/* SPDX-License-Identifier: BSD-2-Clause */
#include "decode.h"
#include "launch.h"
#include "platform.h"
#include "tool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kernel's arguments, as its code finds them. */
enum { SLACK = 64 };

static const struct object_kernel *described(cl_kernel kernel)
{
    const cl_program program = (cl_program)kernel->head.owner;
    return &program->object.kernels[kernel->number];
}

/* The arguments that callers set: those that are not hidden. */
static const struct argument *argument_of(const struct object_kernel *kernel, cl_uint number)
{
    for (int n = 0; n < kernel->arguments_count; n++)
        if (strncmp(kernel->arguments[n].kind, "hidden_", 7) != 0 && number-- == 0)
            return &kernel->arguments[n];
    return NULL;
}

cl_kernel kernel_create(cl_program program, const char *name, cl_int *code)
{
    cl_int said = object_is(program, PROGRAM) ? CL_INVALID_KERNEL_NAME : CL_INVALID_PROGRAM;
    cl_kernel kernel = NULL;
    objects_lock();
    if (said == CL_INVALID_KERNEL_NAME && program->status != CL_BUILD_SUCCESS)
        said = CL_INVALID_PROGRAM_EXECUTABLE;
    for (int n = 0; said == CL_INVALID_KERNEL_NAME && n < program->object.kernels_count; n++) {
        if (strcmp(program->object.kernels[n].name, name) != 0)
            continue;
        kernel = object_new(sizeof *kernel, KERNEL_OBJECT, program);
        said = kernel ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
        if (kernel) {
            kernel->number = n;
            kernel->arguments = calloc(1, program->object.kernels[n].code.argument_bytes + SLACK);
        }
    }
    objects_unlock();
    if (code)
        *code = said;
    return kernel;
}

void kernel_end(cl_kernel kernel)
{
    for (int n = 0; n < MOST_ARGUMENTS; n++)
        object_release(kernel->buffers[n]);
    free(kernel->arguments);
}

cl_int kernel_retain(cl_kernel kernel)
{
    objects_lock();
    const bool ok = object_is(kernel, KERNEL_OBJECT);
    if (ok)
        object_retain(kernel);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_KERNEL;
}

cl_int kernel_release(cl_kernel kernel)
{
    objects_lock();
    const bool ok = object_is(kernel, KERNEL_OBJECT);
    if (ok)
        object_release(kernel);
    objects_unlock();
    return ok ? CL_SUCCESS : CL_INVALID_KERNEL;
}

static cl_int set_buffer(cl_kernel kernel, cl_uint number, const struct argument *argument, size_t size,
                         const void *value)
{
    cl_mem buffer = value ? *(const cl_mem *)value : NULL;
    if (size != sizeof buffer)
        return CL_INVALID_ARG_SIZE;
    if (buffer && !object_is(buffer, BUFFER))
        return CL_INVALID_MEM_OBJECT;
    const uintptr_t address = buffer ? (uintptr_t)buffer->bytes : 0;
    if (buffer)
        object_retain(buffer);
    object_release(kernel->buffers[number]);
    kernel->buffers[number] = buffer;
    memcpy(kernel->arguments + argument->offset, &address, sizeof address);
    return CL_SUCCESS;
}

cl_int kernel_argument(cl_kernel kernel, cl_uint number, size_t size, const void *value)
{
    cl_int code = CL_SUCCESS;
    objects_lock();
    const struct argument *argument = object_is(kernel, KERNEL_OBJECT) ? argument_of(described(kernel), number) : NULL;
    if (!argument)
        code = object_is(kernel, KERNEL_OBJECT) ? CL_INVALID_ARG_INDEX : CL_INVALID_KERNEL;
    else if (strcmp(argument->kind, "global_buffer") == 0)
        code = set_buffer(kernel, number, argument, size, value);
    else if (strcmp(argument->kind, "by_value") != 0)
        code = CL_INVALID_ARG_VALUE; /* local memory by argument: nothing that clattn uses */
    else if (size != argument->bytes)
        code = CL_INVALID_ARG_SIZE;
    else
        memcpy(kernel->arguments + argument->offset, value, size);
    if (!code)
        kernel->set |= 1ull << number;
    objects_unlock();
    return code;
}

cl_int kernel_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info name, size_t room, void *to,
                         size_t *wanted)
{
    if (!object_is(kernel, KERNEL_OBJECT))
        return CL_INVALID_KERNEL;
    const struct object_kernel *of = described(kernel);
    const struct device_facts *facts = device ? device->facts : ((cl_program)kernel->head.owner)->device->facts;
    const size_t most = of->most_items ? of->most_items : 256, multiple = (size_t)facts->chip.lanes;
    const size_t required[3] = {of->required_group[0], of->required_group[1], of->required_group[2]};
    const cl_ulong local = of->code.local_bytes, private = of->code.private_bytes;
    switch (name) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        return answer(&most, sizeof most, room, to, wanted);
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        return answer(&multiple, sizeof multiple, room, to, wanted);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return answer(required, sizeof required, room, to, wanted);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        return answer(&local, sizeof local, room, to, wanted);
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        return answer(&private, sizeof private, room, to, wanted);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_kernel kernel_copy(cl_kernel kernel, cl_int *code)
{
    const struct object_kernel *of = described(kernel);
    cl_uint count = 0;
    while (argument_of(of, count))
        count++;
    if (kernel->set != (1ull << count) - 1) {
        *code = CL_INVALID_KERNEL_ARGS;
        return NULL;
    }
    cl_kernel copy = object_new(sizeof *copy, KERNEL_OBJECT, kernel->head.owner);
    const size_t bytes = of->code.argument_bytes + SLACK;
    *code = copy && (copy->arguments = malloc(bytes)) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    if (*code)
        return NULL;
    memcpy(copy->arguments, kernel->arguments, bytes);
    copy->number = kernel->number;
    for (int n = 0; n < MOST_ARGUMENTS; n++)
        if ((copy->buffers[n] = kernel->buffers[n]))
            object_retain(copy->buffers[n]);
    return copy;
}

/* What the code may want to know of the launch, besides its arguments. */
static void set_hidden(cl_kernel kernel, const struct object_kernel *of, const struct command *command)
{
    static const char *const counts[] = {"hidden_block_count_x", "hidden_block_count_y", "hidden_block_count_z"};
    static const char *const sizes[] = {"hidden_group_size_x", "hidden_group_size_y", "hidden_group_size_z"};
    for (int n = 0; n < of->arguments_count; n++)
        for (int d = 0; d < 3; d++) {
            uint8_t *to = kernel->arguments + of->arguments[n].offset;
            const uint32_t count = (uint32_t)(command->global[d] / command->local[d]);
            const uint16_t size = (uint16_t)command->local[d], dimensions = (uint16_t)command->dimensions;
            if (strcmp(of->arguments[n].kind, counts[d]) == 0)
                memcpy(to, &count, sizeof count);
            else if (strcmp(of->arguments[n].kind, sizes[d]) == 0)
                memcpy(to, &size, sizeof size);
            else if (strcmp(of->arguments[n].kind, "hidden_grid_dims") == 0)
                memcpy(to, &dimensions, sizeof dimensions);
        }
}

/* The dispatch packet (HSA's): sizes of a group and of the grid. */
static void fill_packet(uint8_t packet[64], const struct object_kernel *of, const struct command *command)
{
    memset(packet, 0, 64);
    for (int d = 0; d < 3; d++) {
        const uint16_t local = (uint16_t)command->local[d];
        const uint32_t global = (uint32_t)command->global[d];
        memcpy(packet + 4 + 2 * d, &local, sizeof local);
        memcpy(packet + 12 + 4 * d, &global, sizeof global);
    }
    memcpy(packet + 24, &of->code.private_bytes, 4);
    memcpy(packet + 28, &of->code.local_bytes, 4);
}

static int list_regions(cl_kernel kernel, const struct object_kernel *of, const uint8_t *packet,
                        const struct object *object, struct region *regions)
{
    int count = 0;
    for (int n = 0; n < MOST_ARGUMENTS; n++)
        if (kernel->buffers[n]) {
            const uintptr_t from = (uintptr_t)kernel->buffers[n]->bytes;
            regions[count++] = (struct region){from, from + kernel->buffers[n]->size,
                                               !(kernel->buffers[n]->flags & CL_MEM_READ_ONLY), "a buffer"};
        }
    const uintptr_t arguments = (uintptr_t)kernel->arguments, image = (uintptr_t)object->image;
    regions[count++] = (struct region){arguments, arguments + of->code.argument_bytes, false, "the arguments"};
    regions[count++] = (struct region){(uintptr_t)packet, (uintptr_t)packet + 64, false, "the dispatch packet"};
    regions[count++] = (struct region){image, image + object->image_bytes, false, "the code object"};
    return count;
}

/* The mode that the instructions' functions have: to the nearest, denormals kept; before RDNA 4, where they are bits of
 * it, NaNs that are clamped 0, and those that signal as IEEE 754 wants. */
static bool has_known_mode(const struct chip *chip, uint32_t rsrc1)
{
    const uint32_t clamped = 1u << 21, ieee = 1u << 23, bits = chip->generation < RDNA4 ? clamped | ieee : 0;
    return (rsrc1 >> 12 & 0xff) == 0xf0 && (rsrc1 & bits) == bits;
}

/* The kernel's code, decoded at its first launch; NULL where it is not understood. */
static const struct program *code_of(cl_program program, int number)
{
    struct program *code = &program->code[number];
    const struct object_kernel *kernel = &program->object.kernels[number];
    const bool known = has_known_mode(&program->device->facts->chip, kernel->code.rsrc1);
    char error[400] = "the disassembler failed";
    if (code->code)
        return code;
    if (!known)
        snprintf(error, sizeof error, "a mode of floats that is not known: 0x%x", kernel->code.rsrc1);
    char *listing = known ? tool_disassemble(program->binary, program->binary_bytes, kernel->name) : NULL;
    if (listing && program_decode(&program->device->facts->chip, listing, code, error, sizeof error))
        return code;
    fprintf(stderr, "simulated %s: %s: %s\n", program->device->facts->chip.name, kernel->name, error);
    program_free(code);
    return NULL;
}

/* Wave-instructions by unit, as a line that scripts read (rates.py). */
static void tell_executed(const char *name, const struct executed *executed)
{
    static const char *const units[UNITS] = {"hint", "scalar", "vector", "slow", "matrix", "local", "memory"};
    char text[400];
    int used = snprintf(text, sizeof text, "simulated: %s:", name);
    for (int unit = 0; unit < UNITS; unit++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %s %llu", units[unit],
                         (unsigned long long)executed->of[unit]);
    fprintf(stderr, "%s words %llu\n", text, (unsigned long long)executed->local_words);
}

cl_int kernel_run(struct command *command)
{
    const cl_kernel kernel = command->kernel;
    const cl_program program = (cl_program)kernel->head.owner;
    const struct object_kernel *of = described(kernel);
    const struct program *code = code_of(program, kernel->number);
    _Alignas(64) uint8_t packet[64];
    struct region regions[MOST_ARGUMENTS + 3];
    char fault[700];
    struct executed executed;
    if (!code)
        return CL_OUT_OF_RESOURCES;
    set_hidden(kernel, of, command);
    fill_packet(packet, of, command);
    struct launch launch = {.program = code,
                            .kernel = &of->code,
                            .regions = regions,
                            .regions_count = list_regions(kernel, of, packet, &program->object, regions),
                            .arguments = kernel->arguments,
                            .packet = packet,
                            .image = (uintptr_t)program->object.image,
                            .local_bytes = of->code.local_bytes,
                            .items = (uint32_t)command->local[0]};
    for (int d = 0; d < 3; d++)
        launch.groups[d] = (uint32_t)(command->global[d] / command->local[d]);
    const bool ok = launch_run(&launch, fault, sizeof fault, &executed);
    if (!ok)
        fprintf(stderr, "simulated: %s\n", fault);
    if (getenv("SIMULATED_COUNT"))
        tell_executed(of->name, &executed);
    return ok ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}
