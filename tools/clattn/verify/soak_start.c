/* SPDX-License-Identifier: BSD-2-Clause */
#include "verify/soak_start.h"
#include "system/system.h"
#include "verify/draw.h"
#include "verify/skeletons.h"
#include <clattn/tuning.h>
#include <signal.h>

enum { PER_PROGRAM = 4, GPU_SECONDS = 30, CPU_SECONDS = 300 };
#define LARGEST_SEED INT64_C(90000000000) /* cases are numbered behind it */

static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    interrupted = signal;
}

unsigned soak_bits(const struct option_list *words)
{
    unsigned bits = 0;
    for (int i = 0; i < words->count; i++)
        bits |= (unsigned)words->values[i];
    return bits;
}

void soak_words(const struct option_list *words, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < words->count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i ? "," : "",
                                   option_word_of(verify_trait_words(), words->values[i]));
}

/* A problem that every skeleton serves, on devices that it runs on. */
static struct clattn_problem plain_problem(const char *name)
{
    const struct verify_skeleton *skeleton = verify_skeleton_of(name);
    return (struct clattn_problem){.pass = skeleton && skeleton->backward ? CLATTN_BACKWARD : CLATTN_FORWARD,
                                   .dtype = CLATTN_FP16,
                                   .d = 64,
                                   .skeleton = name,
                                   .unordered = skeleton && skeleton->any_order};
}

/* As tuning records have it. */
static void kernels_of(const void *capabilities, const char *name, char hex[40])
{
    const struct clattn_problem problem = plain_problem(name);
    struct clattn_plan_info info;
    struct clattn_tuning_record record;
    const bool known = !clattn_plan_preview(capabilities, &problem, &info) &&
                       !clattn_tuning_describe(capabilities, &problem, &info, &record);
    snprintf(hex, 40, "%s", known ? record.kernels : "");
}

static bool runs_here(const struct clattn_capabilities *capabilities, const struct verify_skeleton *row)
{
    const struct clattn_problem problem = plain_problem(row->name);
    struct clattn_plan_info info;
    return (capabilities->type == CLATTN_DEVICE_CPU ? row->suits_cpu : row->suits_others) &&
           !clattn_plan_preview(capabilities, &problem, &info);
}

static void choose_skeletons(struct soak *soak, const char *skeleton, const struct clattn_capabilities *capabilities)
{
    if (skeleton)
        soak->skeletons[soak->skeleton_count++] = skeleton;
    for (const struct verify_skeleton *row = verify_skeletons(); row->name && !skeleton; row++)
        if (runs_here(capabilities, row))
            soak->skeletons[soak->skeleton_count++] = row->name;
}

static int count_processors(void)
{
    const int count = system_processors();
    return count > SOAK_MOST_JOBS ? SOAK_MOST_JOBS : count;
}

int soak_start(const struct soak_values *values, const struct soak_request *request, struct session *session,
               struct failure *failure)
{
    char title[400];
    const struct clattn_capabilities capabilities = *session->capabilities;
    const bool cpu = capabilities.type == CLATTN_DEVICE_CPU;
    snprintf(title, sizeof title, "%s (%s)", capabilities.device_name, capabilities.platform_name);
    struct soak soak = {.device = {.given = true, .platform = session->platform, .device = session->device},
                        .identity = {title, capabilities.driver_version, clattn_version(), kernels_of, &capabilities},
                        .require = soak_bits(&values->require),
                        .without = soak_bits(&values->without),
                        .unordered = request->unordered,
                        .seed = request->seed,
                        .seconds = (double)values->seconds,
                        .cases = values->cases,
                        .jobs = values->jobs ? (int)values->jobs : count_processors(),
                        .running = (int)values->running,
                        .per_program = values->per_program ? (int)values->per_program : PER_PROGRAM,
                        .deadline = (double)(values->deadline ? values->deadline
                                             : cpu            ? CPU_SECONDS
                                                              : GPU_SECONDS),
                        .file = values->file,
                        .quiet = request->quiet,
                        .json = request->json,
                        .stop = &interrupted};
    if (soak.seed > LARGEST_SEED)
        return fail(failure, STATUS_USAGE, "--seed %lld: of a soak it is at most %lld", (long long)soak.seed,
                    (long long)LARGEST_SEED);
    choose_skeletons(&soak, request->skeleton, &capabilities);
    session_close(session);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    return soak_run(&soak, failure);
}
