/* SPDX-License-Identifier: BSD-2-Clause */
#define _POSIX_C_SOURCE 200809L
#include "bench/pictures.h"
#include "files/output_file.h"
#include "system/files.h"
#include "system/process.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs gnuplot with its input and output on descriptors; its own complaints go where ours do. */
static int run_gnuplot(int input, int output, char *const *arguments, struct failure *failure)
{
    bool well = false;
    const int error = process_run(arguments, input, output, &well);
    if (error == ENOENT)
        return fail(failure, STATUS_FILE,
                    "gnuplot, which draws the pictures, is not there: install it (Debian: gnuplot-nox), or keep the "
                    "rows with --json FILE and draw elsewhere with --from FILE");
    if (error)
        return fail(failure, STATUS_FILE, "gnuplot cannot be started: %s", strerror(error));
    return well ? STATUS_OK
                : fail(failure, STATUS_FILE, "gnuplot failed: the picture is not drawn (its own words are above)");
}

/* "svg", "png" or "pdf", behind the last dot; NULL for any other. */
static const char *kind_of(const char *path)
{
    static const char *const kinds[] = {"svg", "png", "pdf", NULL};
    const char *dot = strrchr(path, '.');
    for (const char *const *kind = kinds; dot && *kind; kind++)
        if (!strcmp(dot + 1, *kind))
            return *kind;
    return NULL;
}

/* "rows.svg", "speed", "gp": "rows-speed.gp". */
static char *picture_path(const char *path, const char *name, const char *kind)
{
    const size_t stem = (size_t)(strrchr(path, '.') - path), size = strlen(path) + strlen(name) + 8;
    char *made = malloc(size);
    if (made)
        snprintf(made, size, "%.*s-%s.%s", (int)stem, path, name, kind);
    return made;
}

/* Whether all pictures could be written, and their scripts. */
static int try_pictures(const char *path, bool scripts, struct failure *failure)
{
    int status = STATUS_OK;
    for (const struct bench_picture *picture = bench_pictures; picture->name && !status; picture++)
        for (int i = 0; i <= scripts && !status; i++) {
            char *made = picture_path(path, picture->name, i ? "gp" : kind_of(path));
            status = made ? output_try(made, failure) : fail(failure, STATUS_DEVICE, "no memory for a name");
            free(made);
        }
    return status;
}

int bench_plot_check(const char *path, bool scripts, struct failure *failure)
{
    if (!kind_of(path))
        return fail(failure, STATUS_USAGE, "--plot '%s': must end in .svg, .png or .pdf", path);
    const int nothing = files_open_nowhere();
    if (nothing < 0)
        return fail(failure, STATUS_FILE, "nothing can be opened to write to: %s", strerror(errno));
    char *const arguments[] = {"gnuplot", "--version", NULL};
    const int status = run_gnuplot(nothing, nothing, arguments, failure);
    close(nothing);
    return status ? status : try_pictures(path, scripts, failure);
}

static void write_terminal(const struct bench_picture *picture, const json_t *rows, const char *kind, FILE *script)
{
    const int height = picture->height_of ? picture->height_of(rows) : picture->height;
    const char *look = "background 'white' noenhanced";
    if (!strcmp(kind, "pdf"))
        fprintf(script, "set terminal pdfcairo size %.4fin,%.4fin font 'sans-serif,9' %s\n", picture->width / 96.0,
                height / 96.0, look);
    else
        fprintf(script, "set terminal %s size %d,%d font 'sans-serif,%d' %s\n",
                strcmp(kind, "svg") ? "pngcairo" : "svg", picture->width, height, strcmp(kind, "svg") ? 10 : 13, look);
}

/* What gnuplot writes goes to a file that takes its name when it is whole. */
static int draw(FILE *script, const char *path, struct failure *failure)
{
    struct output_file output;
    int status = output_create(path, &output, failure);
    if (status)
        return status;
    if (fflush(script) || lseek(fileno(script), 0, SEEK_SET) < 0)
        status = fail(failure, STATUS_FILE, "a temporary file: %s", strerror(errno));
    char *const arguments[] = {"gnuplot", "--default-settings", "-", NULL};
    if (!status)
        status = run_gnuplot(fileno(script), output.descriptor, arguments, failure);
    if (!status)
        status = output_finish(&output, failure);
    if (!status)
        return output_commit(&output, failure);
    output_discard(&output);
    return status;
}

/* The script under a name of its own, for who wants to draw it otherwise. */
static int keep_script(FILE *script, const char *path, struct failure *failure)
{
    const long length = ftell(script);
    char *text = length > 0 ? malloc((size_t)length) : NULL;
    int status = fail(failure, STATUS_DEVICE, "no memory for the script of %s", path);
    rewind(script);
    if (text && fread(text, 1, (size_t)length, script) == (size_t)length)
        status = output_write_whole(path, text, (size_t)length, failure);
    fseek(script, 0, SEEK_END);
    free(text);
    return status;
}

static int draw_picture(const struct bench_picture *picture, const json_t *rows, const char *path, bool keep,
                        bool quiet, int *drawn, struct failure *failure)
{
    const char *kind = kind_of(path);
    char *image = picture_path(path, picture->name, kind), *kept = picture_path(path, picture->name, "gp");
    FILE *script = files_temporary();
    int status = STATUS_OK;
    if (!image || !kept || !script) {
        status = fail(failure, STATUS_DEVICE, "no memory or temporary file for a picture");
    } else {
        write_terminal(picture, rows, kind, script);
        if (picture->write(rows, script)) {
            status = keep ? keep_script(script, kept, failure) : STATUS_OK;
            if (!status)
                status = draw(script, image, failure);
            *drawn += !status;
            if (!status && !quiet)
                fprintf(stderr, "%s\n", image);
        } else if (!quiet) {
            fprintf(stderr, "%s: not drawn, there are no rows for it\n", image);
        }
    }
    if (script)
        fclose(script);
    free(image);
    free(kept);
    return status;
}

int bench_plot(const json_t *rows, const char *path, bool keep, bool quiet, struct failure *failure)
{
    int drawn = 0, status = STATUS_OK;
    for (const struct bench_picture *picture = bench_pictures; picture->name && !status; picture++)
        status = draw_picture(picture, rows, path, keep, quiet, &drawn, failure);
    if (!status && !drawn)
        return fail(failure, STATUS_FILE, "--plot %s: no row has what a picture shows", path);
    return status;
}
