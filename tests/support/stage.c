/* SPDX-License-Identifier: BSD-2-Clause */
#include "support/stage.h"
#include <stdlib.h>
#include <string.h>

int stage_add(struct stage *stage, const char *name, const struct guard_view *view, const float *input, float *output)
{
    if (stage->count == STAGE_MOST)
        abort();
    stage->tensors[stage->count] =
        (struct stage_tensor){.name = name, .view = *view, .input = input, .output = output, .memory = stage->count};
    return stage->count++;
}

bool stage_make(struct stage *stage)
{
    size_t bytes[STAGE_MOST] = {0};
    for (int i = 0; i < stage->count; i++) {
        const size_t end = guard_end(&stage->tensors[i].view);
        size_t *most = &bytes[stage->tensors[i].memory];
        *most = end > *most ? end : *most;
    }
    for (int i = 0; i < stage->count; i++)
        if (stage->tensors[i].memory == i && !guard_make(&stage->memory[i], bytes[i]))
            return false;
    for (int i = 0; i < stage->count; i++)
        if (stage->tensors[i].input)
            guard_put(&stage->memory[stage->tensors[i].memory], &stage->tensors[i].view, stage->tensors[i].input);
    return true;
}

bool stage_upload(struct stage *stage, const struct test_device *device)
{
    for (int i = 0; i < stage->count; i++)
        if (stage->tensors[i].memory == i && !guard_upload(&stage->memory[i], device))
            return false;
    return true;
}

bool stage_collect(struct stage *stage, const struct test_device *device)
{
    bool intact = true;
    for (int i = 0; i < stage->count; i++) {
        const struct stage_tensor *tensor = &stage->tensors[i];
        struct guarded *memory = &stage->memory[i];
        if (tensor->memory != i)
            continue;
        if (memory->buffer && !guard_download(memory, device))
            return false;
        if (tensor->output) {
            guard_get(memory, &tensor->view, tensor->output);
            guard_forgive(memory, &tensor->view);
        }
        intact = guard_intact(memory, tensor->name) && intact;
    }
    return intact;
}

bool stage_poison(struct stage *stage, const struct test_device *device)
{
    for (int i = 0; i < stage->count; i++) {
        const struct stage_tensor *tensor = &stage->tensors[i];
        if (tensor->output && tensor->input)
            abort(); /* a sum, which begins with something */
        if (tensor->output && !guard_poison(&stage->memory[i], device))
            return false;
    }
    return true;
}

bool stage_same(struct stage *stage, const struct test_device *device)
{
    bool same = true;
    for (int i = 0; i < stage->count; i++)
        if (stage->tensors[i].memory == i)
            same = guard_same(&stage->memory[i], device, stage->tensors[i].name) && same;
    return same;
}

void stage_free(struct stage *stage)
{
    for (int i = 0; i < stage->count; i++)
        guard_free(&stage->memory[i]);
    stage->count = 0;
}

struct clattn_tensor stage_at(const struct stage *stage, int which)
{
    return (struct clattn_tensor){.buffer = stage->memory[stage->tensors[which].memory].buffer,
                                  .layout = guard_layout(&stage->tensors[which].view)};
}

void *stage_array(const struct stage *stage, int which)
{
    return stage->memory[stage->tensors[which].memory].after;
}

bool stage_wait(cl_event event)
{
    const cl_int code = clWaitForEvents(1, &event);
    clReleaseEvent(event);
    return test_cl_succeeded(code, "clWaitForEvents");
}

bool stage_workspace(const struct test_device *device, size_t bytes, cl_mem *workspace)
{
    const unsigned char poison = 0xff; /* floats of such bytes are NaN */
    cl_int code = CL_SUCCESS;
    *workspace = bytes ? clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &code) : NULL;
    if (*workspace && !guard_exact) /* Oclgrind, which guard_exact is for, knows itself what was never written */
        code = clEnqueueFillBuffer(device->queue, *workspace, &poison, 1, 0, bytes, 0, NULL, NULL);
    return test_cl_succeeded(code, "clCreateBuffer");
}
