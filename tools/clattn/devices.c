/* SPDX-License-Identifier: BSD-2-Clause */
#include "commands.h"
#include "flow.h"
#include "json_out.h"
#include "opencl_select.h"
#include "options/names.h"
#include "plan/matrix_units.h"
#include <inttypes.h>
#include <string.h>

struct values {
    bool json, brief;
};

static const struct option_spec options[] = {
    FLAG("json", json, "print an array of devices as JSON"),
    FLAG("brief", brief, "one line for each device, its number and name, and nothing probed"),
    END_OF_OPTIONS,
};

const struct command_spec devices_command = {
    .name = "devices",
    .summary = "List the OpenCL devices and what attention can use of them",
    .synopsis = "clattn devices [--json | --brief]",
    .details = "Each device stands under the number P:D that --device takes. Local memory is probed by building small\n"
               "kernels, once for each device and driver; the skeleton is the kernel that fp32 with d = 64 would take.",
    .options = options,
};

/* What is found out about one device. */
struct finding {
    int platform, device;
    struct clattn_capabilities capabilities;
    char problem[512]; /* why it cannot be used; "" where it can */
    struct clattn_plan_info plan;
};

static void examine(const struct opencl_platform *platform, struct finding *finding)
{
    const struct option_device wanted = {.given = true, .platform = finding->platform, .device = finding->device};
    const struct clattn_problem problem = {.d = 64};
    struct session session;
    struct failure failure = {.text = ""};
    if (session_open(&session, &wanted, true, &failure)) {
        snprintf(finding->problem, sizeof finding->problem, "%.500s", failure.text);
        clattn_query_device(platform->devices[finding->device], &finding->capabilities);
        return;
    }
    finding->capabilities = *session.capabilities;
    if (clattn_plan_preview(&finding->capabilities, &problem, &finding->plan))
        snprintf(finding->problem, sizeof finding->problem, "%.500s", clattn_error_message());
    session_close(&session);
}

static void print_memory(const struct clattn_capabilities *c)
{
    char reported[32], given[32], global[32], largest[32];
    bytes_text(c->local_memory_bytes, reported, sizeof reported);
    bytes_text(c->static_local_memory_bytes, given, sizeof given);
    bytes_text(c->global_memory_bytes, global, sizeof global);
    bytes_text(c->max_allocation_bytes, largest, sizeof largest);
    flow(stdout, "     local memory    %s (%s)", reported, local_memory_name(c->local_memory_type));
    if (c->static_local_memory_bytes)
        flow(stdout, ", gives %s to a kernel's arrays", given);
    flow(stdout, "\n     device memory   %s, at most %s in one buffer\n", global, largest);
}

/* Whether kernels on matrix units run, and why. */
static void print_matrix_unit(const struct clattn_capabilities *c)
{
    const struct cla_matrix_unit *unit = cla_matrix_unit_of(c, CLATTN_FP16), *fp32 = cla_matrix_unit_of(c, CLATTN_FP32);
    char why[256];
    cla_matrix_trust_text(c, CLATTN_FP16, why, sizeof why);
    flow(stdout, "     matrix unit     %s%s: %s\n", unit ? unit->name : "none",
         unit && !cla_matrix_is_trusted(c, CLATTN_FP16) ? ", by --skeleton alone" : "", why);
    if (fp32 == unit)
        return;
    cla_matrix_trust_text(c, CLATTN_FP32, why, sizeof why);
    flow(stdout, "     of fp32         %s, by --skeleton alone: %s\n", fp32->name, why);
}

static void print_finding(const struct finding *finding)
{
    const struct clattn_capabilities *c = &finding->capabilities;
    flow(stdout, "%d:%d  %s\n", finding->platform, finding->device, c->device_name);
    flow(stdout, "     type            %s, %" PRIu32 " compute units at %" PRIu32 " MHz\n", device_type_name(c->type),
         c->compute_units, c->clock_mhz);
    flow(stdout, "     driver          %s, %s\n", c->driver_version, c->device_version);
    print_memory(c);
    flow(stdout, "     work-group      at most %" PRIu64 " work-items, best in multiples of %" PRIu32 "\n",
         c->max_work_group_size, c->preferred_work_group_multiple);
    flow(stdout, "     vector width    %" PRIu32 " float%s\n", c->native_vector_width_float,
         c->native_vector_width_float == 1 ? "" : "s");
    if (c->type == CLATTN_DEVICE_GPU)
        print_matrix_unit(c);
    if (finding->problem[0])
        flow(stdout, "     cannot be used: %s\n", finding->problem);
    else
        flow(stdout, "     skeleton        %s, B_r = %d, B_c = %d for fp32 with d = 64\n", finding->plan.skeleton,
             finding->plan.b_r, finding->plan.b_c);
}

static json_t *json_finding(const struct finding *finding)
{
    json_t *row = json_capabilities(&finding->capabilities);
    char number[32];
    snprintf(number, sizeof number, "%d:%d", finding->platform, finding->device);
    json_object_set_new(row, "device", json_text(number));
    if (finding->capabilities.type == CLATTN_DEVICE_GPU) {
        const struct cla_matrix_unit *unit = cla_matrix_unit_of(&finding->capabilities, CLATTN_FP16);
        char why[256];
        cla_matrix_trust_text(&finding->capabilities, CLATTN_FP16, why, sizeof why);
        json_object_set_new(row, "matrix_unit", unit ? json_text(unit->name) : json_null());
        json_object_set_new(row, "matrix_unit_why", json_text(why));
    }
    json_object_set_new(row, "skeleton", finding->problem[0] ? json_null() : json_text(finding->plan.skeleton));
    json_object_set_new(row, "problem", finding->problem[0] ? json_text(finding->problem) : json_null());
    return row;
}

static void report_platform(const struct opencl_platform *platform, int index, json_t *rows)
{
    if (!rows)
        flow(stdout, "%splatform %d: %s%s\n", index ? "\n" : "", index, platform->name,
             platform->device_count ? "" : " (no devices)");
    for (int i = 0; i < platform->device_count; i++) {
        struct finding finding = {.platform = index, .device = i};
        examine(platform, &finding);
        if (rows)
            json_array_append_new(rows, json_finding(&finding));
        else
            print_finding(&finding);
    }
}

static int list_briefly(const struct opencl_platforms *platforms)
{
    for (int i = 0; i < platforms->count; i++)
        for (int j = 0; j < platforms->items[i].device_count; j++) {
            char name[256] = "";
            clGetDeviceInfo(platforms->items[i].devices[j], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
            flow(stdout, "%d:%d %s\n", i, j, name);
        }
    return STATUS_OK;
}

int devices_main(int argc, char **argv, struct failure *failure)
{
    struct values values = {.json = false};
    int status = options_parse(&devices_command, argc, argv, &values, failure);
    if (!status && values.json && values.brief)
        status = fail(failure, STATUS_USAGE, "--json and --brief: one of them");
    if (status)
        return status;
    struct opencl_platforms platforms;
    status = opencl_list(&platforms, failure);
    if (status)
        return status;
    if (values.brief) {
        status = list_briefly(&platforms);
        opencl_list_free(&platforms);
        return status;
    }
    json_t *rows = values.json ? json_array() : NULL;
    for (int i = 0; i < platforms.count; i++)
        report_platform(&platforms.items[i], i, rows);
    opencl_list_free(&platforms);
    return values.json ? json_print(rows, NULL, failure) : STATUS_OK;
}
