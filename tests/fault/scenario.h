/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TEST_FAULT_SCENARIO_H
#define TEST_FAULT_SCENARIO_H

#include "support/forward.h"

struct pass_scene;
struct cache_scene;

/* The operations that faults are tried on, as steps that can each be repeated after they failed. */
struct scene {
    struct test_device *device; /* its cl_context and queue are the caller's part of the game */
    const char *cache_directory;
    struct forward_arrays arrays;
    size_t count[4]; /* elements of q, k, v, o */
    cl_mem buffers[4];
    float *output;  /* what the host level writes to */
    size_t outputs; /* its elements */
    const struct scenario *scenario;
    struct pass_scene *pass;   /* of pass_scene.h */
    struct cache_scene *cache; /* of cache_scene.c */
    cl_mem results;            /* the buffer that the device level writes to; one of those above, or a scene's own */
    cl_mem workspace;
    cl_event event;

    clattn_context *context;
    clattn_plan *plan;
    clattn_host *host;
    bool done; /* the last step has succeeded */
};

struct step {
    const char *name;
    clattn_status (*run)(struct scene *scene);
};

struct scenario {
    const char *name;
    const struct step *steps; /* ended by one without a function */
    bool clblast;             /* CLBlast's own status codes may come out */
    bool whole;               /* a context that was made again after a fault goes through the other steps too */
    bool sparse;              /* its calls on new objects are met one in some, those on kept ones each */
    bool files;               /* files are what it is about: their errors come out */
    bool warm_only;           /* met with a warm disk cache alone, and in half of the ways to fail */
    bool (*open)(struct scene *scene); /* NULL: the forward pass's */
    void (*close)(struct scene *scene);
    bool (*right)(struct scene *scene);
};

const struct scenario *scenario_named(const char *name);
const struct scenario *scenario_at(int number); /* NULL behind the last */

bool scene_open(struct scene *scene, struct test_device *device, const char *cache_directory,
                const struct scenario *scenario);
void scene_close(struct scene *scene);

void scene_poison(struct scene *scene);
clattn_status scene_make_context(struct scene *scene); /* a step */

/* After a step that succeeded, and after one that failed: are the outputs as the headers say? */
bool scene_consistent(const struct scene *scene);
bool scene_untouched(const struct scene *scene);

/* As it was before its last step, but for what the objects keep: that step can run again. */
bool scene_rewind(struct scene *scene);

/* Waits, and compares the results with the reference. */
bool scene_right(struct scene *scene);

#endif
