/* SPDX-License-Identifier: BSD-2-Clause
 *
 * Memory that a call cannot use is refused before anything is enqueued: buffers of another cl_context, made for reading
 * or writing alone, images, and sub-buffers that lie where an output does. */
#include "api_fixture.h"

static cl_mem buffer_of(cl_context context, cl_mem_flags flags)
{
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateBuffer(context, flags, sizeof arrays[0], NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    return made;
}

static cl_mem part_of(cl_mem buffer, size_t origin, size_t bytes)
{
    const cl_buffer_region region = {origin, bytes};
    cl_int code = CL_SUCCESS;
    cl_mem made = clCreateSubBuffer(buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    assert_int_equal(code, CL_SUCCESS);
    return made;
}

typedef clattn_status (*enqueue_function)(const struct clattn_forward_args *args);

static clattn_status enqueue_forward(const struct clattn_forward_args *args)
{
    return clattn_forward_enqueue(plan, device.queue, args, 0, NULL, NULL);
}

static clattn_status enqueue_standard(const struct clattn_forward_args *args)
{
    return clattn_standard_enqueue(device.clattn, &problem, device.queue, args, 0, NULL, NULL);
}

static const enqueue_function enqueues[] = {enqueue_forward, enqueue_standard};

static void refuse_each(cl_mem buffer, bool as_input, bool as_output, const char *part)
{
    static const char *const names[] = {"q.buffer",   "k.buffer", "v.buffer", "o.buffer",
                                        "lse.buffer", "m.buffer", "l.buffer"};
    EACH (n, enqueues)
        EACH (i, names) {
            struct clattn_forward_args args = good_args();
            struct clattn_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o, &args.lse, &args.m, &args.l};
            char wanted[128];
            if (i < O ? !as_input : !as_output)
                continue;
            tensors[i]->buffer = buffer;
            snprintf(wanted, sizeof wanted, "%s %s", names[i], part);
            assert_failed(enqueues[n](&args), CLATTN_INVALID_ARGUMENT, wanted);
        }
    assert_nothing_written();
}

static void buffers_of_another_context(void **state)
{
    (void)state;
    cl_mem foreign = buffer_of(foreign_context, CL_MEM_READ_WRITE);
    refuse_each(foreign, true, true, "belongs to the cl_context");
    clReleaseMemObject(foreign);
}

static void buffers_made_for_the_other_direction(void **state)
{
    (void)state;
    cl_mem to_read = buffer_of(device.context, CL_MEM_READ_ONLY),
           to_write = buffer_of(device.context, CL_MEM_WRITE_ONLY);
    refuse_each(to_read, false, true, "was made with CL_MEM_READ_ONLY");
    refuse_each(to_write, true, false, "was made with CL_MEM_WRITE_ONLY");
    struct clattn_forward_args args = good_args();
    args.q.buffer = args.k.buffer = args.v.buffer = to_read; /* which is what each is for */
    args.o.buffer = to_write;
    EACH (n, enqueues)
        assert_int_equal(enqueues[n](&args), CLATTN_SUCCESS);
    args.workspace = to_write;
    assert_failed(enqueue_standard(&args), CLATTN_INVALID_ARGUMENT, "workspace ");
    args.q.buffer = args.k.buffer = args.v.buffer = buffers[Q];
    args.workspace = to_read;
    assert_failed(enqueue_standard(&args), CLATTN_INVALID_ARGUMENT, "workspace was made with CL_MEM_READ_ONLY");
    clFinish(device.queue);
    clReleaseMemObject(to_read);
    clReleaseMemObject(to_write);
}

static void images(void **state)
{
    (void)state;
    const cl_image_format format = {CL_R, CL_FLOAT};
    const cl_image_desc description = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 32, .image_height = 32};
    cl_bool has_images = CL_FALSE;
    cl_int code = CL_SUCCESS;
    clGetDeviceInfo(device.device, CL_DEVICE_IMAGE_SUPPORT, sizeof has_images, &has_images, NULL);
    if (!has_images)
        skip();
    cl_mem image = clCreateImage(device.context, CL_MEM_READ_WRITE, &format, &description, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    refuse_each(image, true, true, "is an image");
    clReleaseMemObject(image);
}

/* In one buffer, seen whole and as parts: 1536 bytes of q, then as many of o. */
static void outputs_overlap_through_sub_buffers(void **state)
{
    (void)state;
    enum { BYTES = HEADS * N_Q * D * 4, ALIGNED = 512 /* where NVIDIA's sub-buffers may begin */ };
    cl_mem whole = buffers[Q], first = part_of(whole, 0, BYTES), second = part_of(whole, BYTES, BYTES);
    cl_mem half = part_of(whole, ALIGNED, BYTES);
    struct clattn_forward_args args = good_args();
    EACH (n, enqueues) {
        args.o.buffer = first;
        assert_failed(enqueues[n](&args), CLATTN_INVALID_ARGUMENT, "o (bytes 0 to 1535) overlaps q (bytes 0 to 1535)");
        args.q.buffer = half;
        assert_failed(enqueues[n](&args), CLATTN_INVALID_ARGUMENT,
                      "o (bytes 0 to 1535) overlaps q (bytes 512 to 2047)");
        args.q.buffer = second;
        args.o.buffer = whole;
        args.o.layout.offset = BYTES / 4 - 1;
        assert_failed(enqueues[n](&args), CLATTN_INVALID_ARGUMENT,
                      "o (bytes 1532 to 3067) overlaps q (bytes 1536 to 3071)");
        args.q.buffer = whole;
        args.o.layout.offset = 0;
    }
    assert_nothing_written();
    args.q.buffer = first; /* beside each other */
    args.o.buffer = second;
    EACH (n, enqueues)
        assert_int_equal(enqueues[n](&args), CLATTN_SUCCESS);
    args.q.buffer = args.k.buffer = args.v.buffer = half; /* inputs may share */
    args.o.buffer = buffers[O];
    assert_int_equal(enqueue_forward(&args), CLATTN_SUCCESS);
    clFinish(device.queue);
    /* The last one first: NVIDIA's driver crashes where sub-buffers that overlap, and that kernels have used, are
     * released in the order in which they were made (580.159; tests/drivers/sub_buffers.c). */
    clReleaseMemObject(half);
    clReleaseMemObject(second);
    clReleaseMemObject(first);
}

/* Gradients that a call adds to are read; others are not. */
static void gradients(void **state)
{
    (void)state;
    const struct clattn_problem other = {.pass = CLATTN_BACKWARD_ACCUMULATE, .d = D};
    cl_mem to_read = buffer_of(device.context, CL_MEM_READ_ONLY),
           to_write = buffer_of(device.context, CL_MEM_WRITE_ONLY);
    clattn_plan *made = NULL;
    assert_int_equal(clattn_plan_create(&made, device.clattn, &other), CLATTN_SUCCESS);
    struct clattn_backward_args args = good_backward_args();
    args.d_q.buffer = to_write;
    args.key_count = N_KV;
    assert_failed(clattn_backward_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "d_q.buffer was made with CL_MEM_WRITE_ONLY");
    args.d_q.buffer = NULL;
    args.d_k.buffer = to_read;
    assert_failed(clattn_backward_enqueue(made, device.queue, &args, 0, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                  "d_k.buffer was made with CL_MEM_READ_ONLY");
    assert_nothing_written();
    clattn_plan_destroy(&made);
    clReleaseMemObject(to_read);
    clReleaseMemObject(to_write);
}

/* A state is read and written; states that are merged are two. */
static void states(void **state)
{
    (void)state;
    const struct clattn_problem other = {.pass = CLATTN_ACCUMULATE, .d = D};
    cl_mem to_read = buffer_of(device.context, CL_MEM_READ_ONLY),
           to_write = buffer_of(device.context, CL_MEM_WRITE_ONLY);
    cl_mem parts[] = {part_of(buffers[Q], 0, 2048), part_of(buffers[Q], 1024, 2048)};
    clattn_plan *made = NULL;
    const struct clattn_shape small = {.batch = 1, .heads = 1, .n_q = 4, .n_kv = 4};
    assert_int_equal(clattn_plan_create(&made, device.clattn, &other), CLATTN_SUCCESS);
    assert_failed(clattn_state_begin_enqueue(made, device.queue, &small, to_write, 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "state was made with CL_MEM_WRITE_ONLY");
    assert_failed(clattn_state_begin_enqueue(made, device.queue, &small, to_read, 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "state was made with CL_MEM_READ_ONLY");
    assert_failed(clattn_state_merge_enqueue(made, device.queue, &shape, parts[0], parts[1], 0, NULL, NULL),
                  CLATTN_INVALID_ARGUMENT, "overlaps from");
    assert_nothing_written();
    clattn_plan_destroy(&made);
    EACH (i, parts)
        clReleaseMemObject(parts[i]);
    clReleaseMemObject(to_read);
    clReleaseMemObject(to_write);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(buffers_of_another_context),
        TEST(buffers_made_for_the_other_direction),
        TEST(images),
        TEST(outputs_overlap_through_sub_buffers),
        TEST(gradients),
        TEST(states),
    };
    test_device_open(&device);
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    test_device_close(&device);
    return failures;
}
