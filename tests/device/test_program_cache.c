/* SPDX-License-Identifier: BSD-2-Clause */
#define _GNU_SOURCE
#include "device/binary_cache.h"
#include "device/clcall.h"
#include "device/context.h"
#include "device/launch.h"
#include "device/os.h"
#include "device_fixture.h"
#include "plan/binary_format.h"
#include "plan/source.h"
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS = 8, ITEMS = 64 };

static const char text[] = "__kernel void answer(__global int *out, int add)\n"
                           "{\n"
                           "    out[get_global_id(0)] = (int)get_global_id(0) * 3 + add;\n"
                           "}\n";

static clattn_context *create(const char *directory)
{
    struct clattn_context_params params = fixture_params();
    params.cache_directory = directory;
    clattn_context *context = NULL;
    assert_int_equal(clattn_context_create(&context, &params), CLATTN_SUCCESS);
    forget_what_was_said();
    return context;
}

/* As after a new start of the program, with room for so many: nothing is in memory. */
static void make_room_for(clattn_context *context, int most)
{
    cla_programs_destroy(context->programs);
    context->programs = cla_programs_create(most);
    assert_non_null(context->programs);
    forget_what_was_said();
}

static void forget_programs(clattn_context *context)
{
    make_room_for(context, CLA_PROGRAMS_KEPT);
}

static cl_program get(clattn_context *context, char key[CLA_HASH_HEX])
{
    struct cla_error error = {0};
    cl_program program = NULL;
    if (cla_program_get(context, "answer", text, CLA_BUILD_OPTIONS, &program, key, &error))
        fail_msg("%s", error.text);
    assert_non_null(program);
    return program;
}

/* Launches through one cla_kernel, with an argument of its own, and looks at every element. */
static int launch(struct cla_kernel *kernel, int add)
{
    struct cla_error error;
    int out[ITEMS] = {0}, wrong = 0;
    cl_mem buffer = NULL;
    cl_command_queue queue = NULL;
    clattn_status status = cla_cl_queue(fixture_context, fixture_device, 0, &queue, &error);
    if (!status)
        status = cla_cl_buffer(fixture_context, CL_MEM_READ_WRITE, sizeof out, &buffer, &error);
    const struct cla_argument arguments[] = {{sizeof buffer, &buffer}, {sizeof add, &add}};
    if (!status)
        status =
            cla_kernel_launch(kernel, &(struct cla_dispatch){.queue = queue}, arguments, 2, ITEMS / 16, 16, &error);
    if (!status)
        status = cla_cl_enqueue_read(queue, buffer, 0, sizeof out, out, 0, NULL, NULL, &error);
    if (!status)
        status = cla_cl_finish(queue, &error);
    for (int i = 0; i < ITEMS; i++)
        wrong += out[i] != i * 3 + add;
    cla_cl_release_buffer(buffer);
    cla_cl_release_queue(queue);
    return status ? -1 : wrong;
}

static void assert_works(cl_program program)
{
    struct cla_error error;
    struct cla_kernel kernel = {0};
    assert_int_equal(cla_kernel_init(&kernel, program, "answer", &error), CLATTN_SUCCESS);
    assert_int_equal(launch(&kernel, 7), 0);
    cla_kernel_finish(&kernel);
    cla_kernel_finish(&kernel); /* accepts one that is all zero */
}

static void assert_gets_working_program(clattn_context *context)
{
    char key[CLA_HASH_HEX];
    cl_program program = get(context, key);
    assert_works(program);
    cla_cl_release_program(program);
}

/* The file in which the program `key` is kept. */
static void file_of(const char *key, char path[400])
{
    snprintf(path, 400, "%s/%s%s", fixture_directory, key, CLA_BINARY_CACHE_SUFFIX);
}

static void *launch_often(void *kernel)
{
    intptr_t bad = 0;
    for (int i = 0; i < 20; i++)
        bad += launch(kernel, (int)(uintptr_t)&bad % 1000 + i) != 0;
    return (void *)bad;
}

static void many_threads_launch_one_kernel(void **state)
{
    (void)state;
    struct cla_error error;
    struct cla_kernel kernel = {0};
    char key[CLA_HASH_HEX];
    pthread_t threads[THREADS];
    clattn_context *context = create("");
    cl_program program = get(context, key);
    assert_int_equal(cla_kernel_init(&kernel, program, "answer", &error), CLATTN_SUCCESS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &kernel), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    cla_kernel_finish(&kernel);
    cla_cl_release_program(program);
    clattn_context_destroy(&context);
}

static void a_kernel_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct cla_error error;
    struct cla_kernel kernel = {0};
    char key[CLA_HASH_HEX];
    clattn_context *context = create("");
    cl_program program = get(context, key);
    assert_int_equal(cla_kernel_init(&kernel, program, "absent", &error), CL_INVALID_KERNEL_NAME);
    assert_non_null(strstr(error.text, "CL_INVALID_KERNEL_NAME (-46)"));
    cla_kernel_finish(&kernel);
    cla_cl_release_program(program);
    clattn_context_destroy(&context);
}

static void sources_are_put_together_under_their_names(void **state)
{
    (void)state;
    static const char *const files[] = {"common/types.clh", "probe.cl", NULL}, *const absent[] = {"absent.cl", NULL};
    struct cla_error error;
    struct cla_text source = {0};
    assert_int_equal(cla_source_assemble("#define A 1\n", files, &source, &error), CLATTN_SUCCESS);
    assert_int_equal(strlen(source.data), source.length);
    const char *first = strstr(source.data, "#define A 1\n#line 1 \"cl/common/types.clh\"\n/* SPDX");
    assert_ptr_equal(first, source.data);
    assert_non_null(strstr(source.data, "\n#line 1 \"cl/probe.cl\"\n/* SPDX"));
    assert_int_equal(cla_source_assemble("", absent, &source, &error), CLATTN_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "absent.cl"));
    cla_text_free(&source);
}

struct asking {
    clattn_context *context;
    const char *text;
    pthread_barrier_t *start;
    cl_program program;
    clattn_status status;
    struct cla_error error;
};

static void *ask(void *argument)
{
    struct asking *asking = argument;
    char key[CLA_HASH_HEX];
    pthread_barrier_wait(asking->start);
    asking->status = cla_program_get(asking->context, "answer", asking->text, CLA_BUILD_OPTIONS, &asking->program, key,
                                     &asking->error);
    return NULL;
}

/* All threads ask at the same moment; thread i for texts[i % count]. */
static void ask_at_once(clattn_context *context, const char *const *texts, int count, struct asking asking[THREADS])
{
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        asking[i] = (struct asking){.context = context, .text = texts[i % count], .start = &start};
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &asking[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

static void threads_that_ask_for_one_program_build_it_once(void **state)
{
    (void)state;
    const char *const texts[] = {text};
    struct asking asking[THREADS];
    clattn_context *context = create(fixture_directory);
    ask_at_once(context, texts, 1, asking);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(asking[i].status, CLATTN_SUCCESS);
        assert_ptr_equal(asking[i].program, asking[0].program);
    }
    assert_int_equal(times_said("kernel answer: built"), 1);
    assert_works(asking[0].program);
    for (int i = 0; i < THREADS; i++)
        cla_cl_release_program(asking[i].program);
    clattn_context_destroy(&context);
}

static void different_programs_are_built_each(void **state)
{
    (void)state;
    const char *const texts[] = {text, "__kernel void answer(void) {}\n"};
    struct asking asking[THREADS];
    clattn_context *context = create(fixture_directory);
    ask_at_once(context, texts, 2, asking);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(asking[i].status, CLATTN_SUCCESS);
        assert_ptr_equal(asking[i].program, asking[i % 2].program);
        cla_cl_release_program(asking[i].program);
    }
    assert_ptr_not_equal(asking[0].program, asking[1].program);
    assert_int_equal(times_said("kernel answer: built"), 2);
    clattn_context_destroy(&context);
}

static void a_failed_build_tells_all_and_is_not_remembered(void **state)
{
    (void)state;
    const char *const texts[] = {"__kernel void answer(void) { this_is_not_declared = 1; }\n"};
    struct asking asking[THREADS];
    clattn_context *context = create(fixture_directory);
    for (int round = 0; round < 2; round++) {
        ask_at_once(context, texts, 1, asking);
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(asking[i].status, CLATTN_BUILD_FAILED);
            assert_int_equal(asking[i].error.status, CLATTN_BUILD_FAILED);
            assert_null(asking[i].program);
            assert_non_null(strstr(asking[i].error.text, "kernel answer"));
            assert_non_null(strstr(asking[i].error.text, "this_is_not_declared"));
        }
    }
    assert_gets_working_program(context);
    clattn_context_destroy(&context);
}

static void the_second_call_takes_it_from_memory(void **state)
{
    (void)state;
    clattn_context *context = create(fixture_directory);
    char keys[2][CLA_HASH_HEX];
    cl_program first = get(context, keys[0]), second = get(context, keys[1]);
    assert_ptr_equal(first, second);
    assert_string_equal(keys[0], keys[1]);
    assert_int_equal(strlen(keys[0]), 32);
    assert_int_equal(times_said("kernel answer: compiling"), 1);
    cla_cl_release_program(first);
    cla_cl_release_program(second);
    clattn_context_destroy(&context);
}

static void a_program_outlives_the_cache(void **state)
{
    (void)state;
    char key[CLA_HASH_HEX];
    clattn_context *context = create("");
    cl_program program = get(context, key);
    clattn_context_destroy(&context);
    assert_works(program);
    cla_cl_release_program(program);
}

static void a_warm_start_takes_the_binary(void **state)
{
    (void)state;
    clattn_context *context = create(fixture_directory);
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer: built"), 1);
    clattn_context_destroy(&context);
    context = create(fixture_directory);
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer: loaded"), 1);
    assert_int_equal(times_said("kernel answer: built"), 0);
    clattn_context_destroy(&context);
}

static void a_cache_that_cannot_be_written_is_no_error(void **state)
{
    (void)state;
    char file[300], inside[320];
    snprintf(file, sizeof file, "%s/file", fixture_directory);
    snprintf(inside, sizeof inside, "%s/file/cache", fixture_directory);
    assert_true(cla_os_replace_file(file, "x", 1));
    const char *const directories[] = {"", file, inside};
    for (int i = 0; i < 3; i++) {
        clattn_context *context = create(directories[i]);
        assert_gets_working_program(context);
        assert_int_equal(times_said("kernel answer: built"), 1);
        clattn_context_destroy(&context);
    }
}

/* Another user's binary is not run: nothing of such a directory is, and a warning says so. */
static void a_directory_that_others_may_write_to_is_not_used(void **state)
{
    (void)state;
    char shared[300];
    snprintf(shared, sizeof shared, "%s/shared", fixture_directory);
    assert_true(cla_os_make_directory(shared));
    clattn_context *context = create(shared);
    assert_gets_working_program(context);
    clattn_context_destroy(&context);
    assert_int_equal(chmod(shared, 01777), 0);
    struct clattn_context_params params = fixture_params();
    params.cache_directory = shared;
    forget_what_was_said();
    assert_int_equal(clattn_context_create(&context, &params), CLATTN_SUCCESS);
    assert_int_equal(times_said("is not used, compiled programs are not kept: other users may write to it"), 1);
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer: loaded"), 0);
    assert_int_equal(times_said("kernel answer: built"), 1);
    clattn_context_destroy(&context);
}

static unsigned char *read_entry(const char *path, size_t *size)
{
    unsigned char *file = cla_os_read_file(path, 64 << 20, size);
    assert_non_null(file);
    return file;
}

/* Puts a damaged file in the cache; the program must be built anew, work, and be whole in the cache afterwards. */
static void assert_rebuilt(clattn_context *context, const char *path, const void *damaged, size_t size)
{
    assert_true(cla_os_replace_file(path, damaged, size));
    forget_programs(context);
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer: loaded"), 0);
    assert_int_equal(times_said("kernel answer: built"), 1);
    forget_programs(context);
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer: loaded"), 1);
}

/* Every length and every bit are tried at the gate, cla_binary_decode; some of them all the way with the driver. */
static void damaged_entries_are_rebuilt_and_replaced(void **state)
{
    (void)state;
    char key[CLA_HASH_HEX], path[400];
    size_t size = 0, found_size = 0;
    const void *found = NULL;
    clattn_context *context = create(fixture_directory);
    cla_cl_release_program(get(context, key));
    file_of(key, path);
    unsigned char *file = read_entry(path, &size);
    char *identity = strndup((const char *)file + 40, file[12] + 256u * file[13]);
    assert_true(cla_binary_decode(file, size, identity, &found, &found_size));

    for (size_t length = 0; length < size; length++)
        assert_false(cla_binary_decode(file, length, identity, &found, &found_size));
    for (size_t i = 0; i <= 8; i++)
        assert_rebuilt(context, path, file, (size - 1) * i / 8);

    for (size_t bit = 0; bit < 8 * size; bit += bit < 8 * 512 ? 1 : 8 * size / 997 + 1) {
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(cla_binary_decode(file, size, identity, &found, &found_size));
        if (bit % 499 == 0)
            assert_rebuilt(context, path, file, size);
        file[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    free(identity);
    free(file);
    clattn_context_destroy(&context);
}

/* Whole, of the right identity, and still not what the driver takes: as after an update that kept its version number.
 */
static void an_entry_that_the_driver_refuses_is_rebuilt(void **state)
{
    (void)state;
    char key[CLA_HASH_HEX], path[400];
    size_t size = 0;
    clattn_context *context = create(fixture_directory);
    cla_cl_release_program(get(context, key));
    file_of(key, path);
    unsigned char *file = read_entry(path, &size);
    char *identity = strndup((const char *)file + 40, file[12] + 256u * file[13]);
    void *refused = cla_binary_encode(identity, "no program", 10, &size);
    assert_rebuilt(context, path, refused, size);
    free(refused);
    free(identity);
    free(file);
    clattn_context_destroy(&context);
}

/* More programs than are kept in memory: those not asked for longest are let go, and made again. */
static void memory_holds_a_limited_number(void **state)
{
    (void)state;
    struct cla_error error;
    char key[CLA_HASH_HEX], other[128];
    enum { MOST = 24 };
    clattn_context *context = create("");
    make_room_for(context, MOST);
    assert_gets_working_program(context);
    for (int i = 0; i < MOST; i++) {
        cl_program program = NULL;
        snprintf(other, sizeof other, "__kernel void other(__global int *out) { out[0] = %d; }\n", i);
        assert_int_equal(cla_program_get(context, "other", other, CLA_BUILD_OPTIONS, &program, key, &error),
                         CLATTN_SUCCESS);
        cla_cl_release_program(program);
        if (i == MOST / 2)
            assert_gets_working_program(context); /* used again, so not the oldest */
    }
    forget_what_was_said();
    assert_gets_working_program(context);
    assert_int_equal(times_said("kernel answer:"), 0);
    cl_program program = NULL;
    snprintf(other, sizeof other, "__kernel void other(__global int *out) { out[0] = %d; }\n", 0);
    assert_int_equal(cla_program_get(context, "other", other, CLA_BUILD_OPTIONS, &program, key, &error),
                     CLATTN_SUCCESS);
    assert_int_equal(times_said("kernel other: built"), 1);
    cla_cl_release_program(program);
    clattn_context_destroy(&context);
}

int main(void)
{
    if (!open_device())
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        TEST(many_threads_launch_one_kernel),
        TEST(a_kernel_that_is_not_there_is_an_error),
        TEST(sources_are_put_together_under_their_names),
        TEST(threads_that_ask_for_one_program_build_it_once),
        TEST(different_programs_are_built_each),
        TEST(a_failed_build_tells_all_and_is_not_remembered),
        TEST(the_second_call_takes_it_from_memory),
        TEST(a_program_outlives_the_cache),
        TEST(a_warm_start_takes_the_binary),
        TEST(a_cache_that_cannot_be_written_is_no_error),
        TEST(a_directory_that_others_may_write_to_is_not_used),
        TEST(damaged_entries_are_rebuilt_and_replaced),
        TEST(an_entry_that_the_driver_refuses_is_rebuilt),
        TEST(memory_holds_a_limited_number),
    };
    const int failures = cmocka_run_group_tests(tests, NULL, NULL);
    close_device();
    return failures;
}
