/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "verify/soak_log.h"
#include "json_out.h"
#include "system/files.h"
#include "verify/draw.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const outcome_names[SOAK_OUTCOMES] = {"ok", "wrong", "hang", "crash", "error", "refused"};

const char *soak_outcome_name(enum soak_outcome outcome)
{
    return outcome_names[outcome];
}

bool soak_outcome_fails(enum soak_outcome outcome)
{
    return outcome != SOAK_OK && outcome != SOAK_REFUSED;
}

int soak_log_skeleton(struct soak_log *log, const char *name)
{
    for (int i = 0; i < log->skeleton_count; i++)
        if (!strcmp(log->skeletons[i], name))
            return i;
    if (log->skeleton_count == SOAK_SKELETONS || strlen(name) >= sizeof log->skeletons[0])
        return -1;
    strcpy(log->skeletons[log->skeleton_count], name);
    log->identity.kernels(log->identity.user, name, log->kernels[log->skeleton_count]);
    return log->skeleton_count++;
}

/* One case with dQ in any order is another one than in order. */
static int compare(const void *a, const void *b)
{
    const struct soak_record *x = a, *y = b;
    const unsigned x_order = x->traits & VERIFY_UNORDERED, y_order = y->traits & VERIFY_UNORDERED;
    if (x->seed != y->seed)
        return x->seed < y->seed ? -1 : 1;
    if (x->skeleton != y->skeleton)
        return x->skeleton - y->skeleton;
    return (x_order > y_order) - (x_order < y_order);
}

bool soak_log_has(const struct soak_log *log, uint64_t seed, int skeleton, unsigned traits)
{
    const struct soak_record wanted = {.seed = seed, .skeleton = skeleton, .traits = traits};
    return log->earlier && bsearch(&wanted, log->records, (size_t)log->earlier, sizeof wanted, compare);
}

static void free_record(struct soak_record *record)
{
    free(record->name);
    free(record->text);
    record->name = record->text = NULL;
}

static bool append(struct soak_log *log, const struct soak_record *record)
{
    if (log->count == log->capacity) {
        const int capacity = log->capacity ? 2 * log->capacity : 1024;
        struct soak_record *records = realloc(log->records, (size_t)capacity * sizeof *records);
        if (!records)
            return false;
        log->records = records;
        log->capacity = capacity;
    }
    log->records[log->count++] = *record;
    return true;
}

/* --- writing */

static json_t *trait_words(unsigned traits)
{
    json_t *words = json_array();
    for (const struct option_word *word = verify_trait_words(); word->word; word++)
        if (traits & (unsigned)word->value)
            json_array_append_new(words, json_string(word->word));
    return words;
}

static json_t *pack_record(const struct soak_log *log, const struct soak_record *record)
{
    json_t *line =
        json_pack("{s:I, s:s, s:s, s:o, s:s, s:s, s:o, s:o}", "seed", (json_int_t)record->seed, "skeleton",
                  log->skeletons[record->skeleton], "kernels", log->kernels[record->skeleton], "features",
                  trait_words(record->traits), "outcome", soak_outcome_name(record->outcome), "program",
                  record->program, "share", json_measure(record->share), "seconds", json_measure(record->seconds));
    if (line && record->name)
        json_object_set_new(line, "name", json_text(record->name));
    if (line && record->text)
        json_object_set_new(line, "text", json_text(record->text));
    return line;
}

/* The file is opened for appending, and locked: a line is whole or the last. */
static int write_line(const struct soak_log *log, json_t *line, struct failure *failure)
{
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(line);
    if (!text)
        return fail(failure, STATUS_DEVICE, "no memory for a line of %s", log->path);
    const size_t length = strlen(text) + 1;
    text[length - 1] = '\n'; /* in place of the terminator */
    ssize_t written;
    do {
        errno = 0;
        written = write(log->descriptor, text, length);
    } while (written < 0 && errno == EINTR);
    free(text);
    if (written == (ssize_t)length)
        return STATUS_OK;
    return fail(failure, STATUS_FILE, "%s cannot be written: %s", log->path,
                written < 0 ? strerror(errno) : "a line does not fit");
}

int soak_log_add(struct soak_log *log, struct soak_record *record, struct failure *failure)
{
    if (!append(log, record)) {
        free_record(record);
        return fail(failure, STATUS_DEVICE, "no memory for another case");
    }
    return log->path ? write_line(log, pack_record(log, record), failure) : STATUS_OK;
}

static int write_header(const struct soak_log *log, int64_t seed, struct failure *failure)
{
    return write_line(log,
                      json_pack("{s:s, s:o, s:o, s:s, s:I}", "soak", "clattn verify", "device",
                                json_text(log->identity.device), "driver", json_text(log->identity.driver), "library",
                                log->identity.library, "seed", (json_int_t)seed),
                      failure);
}

/* --- reading */

static bool read_traits(const json_t *words, unsigned *traits)
{
    *traits = 0;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *text = json_string_value(json_array_get(words, i));
        const struct option_word *word = verify_trait_words();
        while (word->word && (!text || strcmp(word->word, text) != 0))
            word++;
        if (!word->word)
            return false;
        *traits |= (unsigned)word->value;
    }
    return json_is_array(words);
}

static bool read_outcome(const char *name, enum soak_outcome *outcome)
{
    int i = 0;
    while (i < SOAK_OUTCOMES && strcmp(outcome_names[i], name) != 0)
        i++;
    *outcome = (enum soak_outcome)i;
    return i < SOAK_OUTCOMES;
}

static char *copy_text(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    char *copy = text ? malloc(strlen(text) + 1) : NULL;
    return copy ? strcpy(copy, text) : NULL;
}

static int read_record(struct soak_log *log, const json_t *line, int number, struct failure *failure)
{
    struct soak_record record = {.seed = 0};
    const char *skeleton = NULL, *kernels = NULL, *outcome = NULL, *program = NULL;
    json_t *words = NULL;
    json_int_t seed = -1;
    if (json_unpack((json_t *)line, "{s:I, s:s, s:s, s:o, s:s, s:s}", "seed", &seed, "skeleton", &skeleton, "kernels",
                    &kernels, "features", &words, "outcome", &outcome, "program", &program) ||
        seed < 0 || !read_traits(words, &record.traits) || !read_outcome(outcome, &record.outcome) ||
        strlen(program) >= sizeof record.program)
        return fail(failure, STATUS_FILE, "%s: line %d is not a case of a soak", log->path, number);
    record.seed = (uint64_t)seed;
    record.skeleton = soak_log_skeleton(log, skeleton);
    if (record.skeleton < 0)
        return fail(failure, STATUS_FILE, "%s: line %d: more than %d skeletons", log->path, number, SOAK_SKELETONS);
    if (strcmp(log->kernels[record.skeleton], kernels) != 0)
        return fail(failure, STATUS_FILE,
                    "%s: line %d: that case had other kernels of %s than there are now: take a new file", log->path,
                    number, skeleton);
    record.share = json_number_value(json_object_get(line, "share"));
    record.seconds = json_number_value(json_object_get(line, "seconds"));
    strcpy(record.program, program);
    record.name = copy_text(line, "name");
    record.text = copy_text(line, "text");
    if (append(log, &record))
        return STATUS_OK;
    free_record(&record);
    return fail(failure, STATUS_DEVICE, "no memory for the cases of %s", log->path);
}

static int read_header(const struct soak_log *log, const json_t *line, int64_t *seed, struct failure *failure)
{
    const char *device = NULL, *driver = NULL, *library = NULL;
    json_int_t own = -1;
    if (json_unpack((json_t *)line, "{s:s, s:s, s:s, s:I}", "device", &device, "driver", &driver, "library", &library,
                    "seed", &own) ||
        own < 0)
        return fail(failure, STATUS_FILE, "%s: line 1 is not that of a soak's file: take a new one", log->path);
    if (strcmp(device, log->identity.device) != 0 || strcmp(driver, log->identity.driver) != 0 ||
        strcmp(library, log->identity.library) != 0)
        return fail(failure, STATUS_FILE,
                    "%s is of %.200s, driver %.100s, clattn %.20s, and here it is %.200s, driver %.100s, clattn %.20s: "
                    "take another file",
                    log->path, device, driver, library, log->identity.device, log->identity.driver,
                    log->identity.library);
    if (*seed < 0)
        *seed = own;
    return STATUS_OK;
}

/* Of one case that is there twice, which only an editor can do, one counts. */
static void sort(struct soak_log *log)
{
    int kept = 0;
    if (log->count)
        qsort(log->records, (size_t)log->count, sizeof *log->records, compare);
    for (int i = 0; i < log->count; i++) {
        if (kept && !compare(&log->records[kept - 1], &log->records[i]))
            free_record(&log->records[i]);
        else
            log->records[kept++] = log->records[i];
    }
    log->count = log->earlier = kept;
}

static int read_lines(struct soak_log *log, char *text, int64_t *seed, struct failure *failure)
{
    int status = STATUS_OK, number = 0;
    for (char *at = text, *end; !status && (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        json_t *line = json_loads(at, 0, NULL);
        number++;
        status = number == 1 ? read_header(log, line, seed, failure) : read_record(log, line, number, failure);
        json_decref(line);
    }
    sort(log);
    return status;
}

/* The whole file, terminated. */
static char *read_whole(int descriptor, size_t *size)
{
    const off_t end = lseek(descriptor, 0, SEEK_END);
    char *text = end < 0 || lseek(descriptor, 0, SEEK_SET) ? NULL : malloc((size_t)end + 1);
    *size = 0;
    while (text && *size < (size_t)end) {
        const ssize_t count = read(descriptor, text + *size, (size_t)end - *size);
        if (count <= 0) {
            free(text);
            return NULL;
        }
        *size += (size_t)count;
    }
    if (text)
        text[*size] = '\0';
    return text;
}

static void choose_seed(int64_t *seed)
{
    if (*seed < 0)
        *seed = (int64_t)time(NULL);
}

static int resume(struct soak_log *log, int64_t *seed, struct failure *failure)
{
    size_t size;
    char *text = read_whole(log->descriptor, &size);
    if (!text)
        return fail(failure, STATUS_FILE, "%s cannot be read: %s", log->path, errno ? strerror(errno) : "it shrank");
    char *last = strrchr(text, '\n');
    const size_t whole = last ? (size_t)(last - text) + 1 : 0;
    int status = STATUS_OK;
    if (strlen(text) != size || (!whole && size && text[0] != '{'))
        status = fail(failure, STATUS_FILE, "%s is not a soak's file: take a new one", log->path);
    else if (whole < size && ftruncate(log->descriptor, (off_t)whole)) /* the line that a killed run was at */
        status =
            fail(failure, STATUS_FILE, "%s cannot be cut behind its last whole line: %s", log->path, strerror(errno));
    if (!status)
        status = read_lines(log, text, seed, failure);
    free(text);
    if (status || whole)
        return status;
    choose_seed(seed);
    return write_header(log, *seed, failure);
}

int soak_log_open(struct soak_log *log, const char *path, const struct soak_identity *identity, int64_t *seed,
                  struct failure *failure)
{
    *log = (struct soak_log){.identity = *identity, .descriptor = -1};
    if (!path) {
        choose_seed(seed);
        return STATUS_OK;
    }
    log->path = malloc(strlen(path) + 1);
    if (!log->path)
        return fail(failure, STATUS_DEVICE, "no memory for a path");
    strcpy(log->path, path);
    log->descriptor = files_open_log(path);
    int status;
    if (log->descriptor >= 0)
        status = resume(log, seed, failure);
    else if (errno == EWOULDBLOCK)
        status = fail(failure, STATUS_FILE, "%s: another soak is writing it", path);
    else
        status = fail(failure, STATUS_FILE, "%s cannot be opened: %s", path, strerror(errno));
    if (status)
        soak_log_close(log);
    return status;
}

void soak_log_close(struct soak_log *log)
{
    for (int i = 0; i < log->count; i++)
        free_record(&log->records[i]);
    free(log->records);
    free(log->path);
    if (log->descriptor >= 0)
        close(log->descriptor);
    *log = (struct soak_log){.descriptor = -1};
}
