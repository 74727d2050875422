/* SPDX-License-Identifier: BSD-2-Clause */
#include "options/options.h"
#include <ctype.h>
#include <string.h>

/* The library's messages name fields of its structs. Who uses the command knows options. */

/* Those of features are in their table. */
static const struct field {
    const char *name, *option;
} fields[] = {{"problem.b_r", "b-r"},
              {"problem.b_c", "b-c"},
              {"b_r", "b-r"},
              {"b_c", "b-c"},
              {"problem.work_group_size", "work-group-size"},
              {"work_group_size", "work-group-size"},
              {"problem.knobs", "knobs"},
              {"problem.skeleton", "skeleton"},
              {"problem.d_v", "d-v"},
              {"problem.k_type", "k-format"},
              {"problem.v_type", "v-format"},
              {"k_type", "k-format"},
              {"v_type", "v-format"},
              {"problem.o_type", "o-type"},
              {"problem.dtype", "dtype"},
              {"problem.causal", "causal"},
              {"problem.scale", "scale"},
              {"problem.splits", "splits"},
              {"problem.split_keys", "split-keys"},
              {"problem.pass is 1, a backward one", "grad-out"},
              {"problem.unordered", "unordered"},
              {"problem.packing", "packing"},
              {"problem.score_mod", "score-mod"},
              {"problem.score_mod_grad", "score-mod-grad"},
              {"problem.mask_mod", "mask-mod"},
              {"kv_chunk", "kv-chunk"},
              {"args.max_device_bytes", "memory"}};

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The length of `name` where `text` begins with it, and not with a longer name; 0: it does not. */
static size_t length_of(const char *text, const char *prefix, const char *name)
{
    const size_t before = strlen(prefix), length = before + strlen(name);
    if (strncmp(text, prefix, before) || strncmp(text + before, name, length - before))
        return 0;
    const char *end = text + length;
    return is_of_name(*end) || (*end == '.' && is_of_name(end[1])) || !strncmp(end, "->", 2) ? 0 : length;
}

/* A number whose row has no option is the second one of the row before. */
static size_t number_at(const char *text, const char *prefix, const struct cla_feature_number *numbers, int count,
                        const char **option)
{
    size_t length = 0;
    for (int i = 0; i < count && numbers[i].name && !length; i++) {
        *option = numbers[i].option.name ? numbers[i].option.name : i ? numbers[i - 1].option.name : NULL;
        length = *option ? length_of(text, prefix, numbers[i].name) : 0;
    }
    return length;
}

/* The feature's own constant, alone or as what the problem has: its first option gives it. */
static size_t constant_at(const struct cla_feature *feature, const char *text, const char **option)
{
    const char *const names[] = {feature->tensors[0].option.name, feature->numbers[0].option.name,
                                 feature->settings[0].option.name};
    *option = names[0] ? names[0] : names[1] ? names[1] : names[2];
    const size_t length = *option ? length_of(text, "problem.features has ", feature->constant) : 0;
    return length || !*option ? length : length_of(text, "", feature->constant);
}

static size_t of_feature_at(const struct cla_feature *feature, const char *text, const char **option)
{
    size_t length = number_at(text, "score.", feature->numbers, CLA_FEATURE_NUMBERS, option);
    if (!length)
        length = number_at(text, "problem.", feature->settings, CLA_FEATURE_SETTINGS, option);
    for (int i = 0; i < CLA_FEATURE_TENSORS && feature->tensors[i].name && !length; i++) {
        *option = feature->tensors[i].option.name;
        length = *option ? length_of(text, "", feature->tensors[i].path) : 0;
    }
    return length ? length : constant_at(feature, text, option);
}

/* How many characters of `text` name a field; *option then is what gives it. */
static size_t field_at(const char *text, const char **option)
{
    size_t length = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !length; i++) {
        *option = fields[i].option;
        length = length_of(text, "", fields[i].name);
    }
    for (int i = 0; i < cla_feature_count && !length; i++)
        length = of_feature_at(&cla_features[i], text, option);
    return length;
}

static bool has_option(const struct command_spec *command, const char *name)
{
    struct option_spec option;
    for (int i = 0; option_at(command, i, &option); i++)
        if (!strcmp(option.name, name))
            return true;
    return false;
}

/* A type's constant, with its number behind it, as options call the type; 0: it is none. */
static size_t type_at(const char *text, char *name, size_t size)
{
    static const char prefix[] = "CLATTN_AS_";
    size_t length = 0, number = 0;
    if (strncmp(text, prefix, sizeof prefix - 1))
        return 0;
    text += sizeof prefix - 1;
    for (; is_of_name(text[length]) && length + 1 < size; length++)
        name[length] = (char)tolower((unsigned char)text[length]);
    name[length] = '\0';
    if (text[length] == ' ' && text[length + 1] == '(')
        number = strspn(text + length + 2, "0123456789");
    if (number && text[length + 2 + number] == ')')
        length += number + 3;
    return sizeof prefix - 1 + length;
}

/* A command of both passes has a kernel of each; the message says of which it speaks. */
static const char *option_of(const struct command_spec *command, const char *option, const char *text)
{
    static const char backward[] = "backward-skeleton";
    const bool is_backward = !strcmp(option, "skeleton") && strstr(text, "\"backward_");
    return is_backward && has_option(command, backward) ? backward : option;
}

void options_name_fields(const struct command_spec *command, const char *text, char *named, size_t size)
{
    size_t used = 0;
    for (const char *at = text; *at && used + 1 < size;) {
        const char *option = NULL;
        const bool begins = at == text || !(is_of_name(at[-1]) || at[-1] == '.' || at[-1] == '>' || at[-1] == '-');
        const size_t length = begins ? field_at(at, &option) : 0;
        char name[32];
        const size_t type = begins ? type_at(at, name, sizeof name) : 0;
        if (length && has_option(command, option)) {
            used += (size_t)snprintf(named + used, size - used, "--%s", option_of(command, option, text));
            at += length;
        } else if (type) {
            used += (size_t)snprintf(named + used, size - used, "%s", name);
            at += type;
        } else {
            named[used++] = *at++;
        }
    }
    named[used < size ? used : size - 1] = '\0';
}
