/* Texts of settings: psd's command line and configuration file, optimizers, schedules, clips, ages, networks, psctl's
 * assignments, numbers with units, name patterns.
 *
 * The first byte chooses the reader, the rest is the text. What is accepted is written out again and read back as the
 * same; what is refused has a code and a sentence. */
#include "tests/fuzz/bytes.h"

#include <math.h>

#include "client/include/psclient/ps_network.h"
#include "client/tools/psctl/assignment.h"
#include "client/tools/psrun/psrun_options.h"
#include "common/core/base/number.h"
#include "common/core/base/pattern.h"
#include "common/core/base/units.h"
#include "common/core/base/utf8.h"
#include "common/core/model/age.h"
#include "common/core/model/schedule.h"
#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"
#include "server/process/options.h"

static void
check_refusal(enum ps_err err, const struct ps_error *e)
{
    ps_assert(err == e->code && e->text[0] != '\0');
}

/* ---- psd's options ---- */

static void
check_options(const struct options *o)
{
    ps_assert(o->cluster != NULL && utf8_is_printable(o->cluster, strlen(o->cluster)));
    ps_assert(o->in_flight_connection <= o->in_flight && o->grace_ms > 0);
}

static void
fuzz_config_visit(void *arg, const char *name, bool reloadable, const char *was, const char *is)
{
    (void)reloadable;
    ps_assert(name != NULL && was != NULL && is != NULL);
    ++*(unsigned *)arg;
}

static void
options_from(int argc, char **argv)
{
    char *plain[] = {(char[]){"psd"}, NULL};
    struct options o, defaults;
    struct ps_error e = {0};
    unsigned differ = 0;
    enum ps_err err = options_parse(&o, argc, argv, &e);

    if (err != PS_OK) {
        check_refusal(err, &e);
    } else if (o.line.asked == COMMAND_RUN && !o.sample_config) {
        check_options(&o);
        ps_assert(options_parse(&defaults, 1, plain, &e) == PS_OK);
        options_compare(&defaults, &o, fuzz_config_visit, &differ);
        options_reload(&defaults, &o);
        options_finish(&defaults);
        if ((err = options_apply_shards(&o, "127.0.0.1:7420,127.0.0.1:7421", &e)) != PS_OK)
            check_refusal(err, &e);
    }
    options_finish(&o);
}

static void
fuzz_config_file(struct fuzz_bytes *b)
{
    char path[BYTES_PATH_MAX];
    int fd = bytes_file(b, path);

    options_from(3, (char *[]){(char[]){"psd"}, (char[]){"--config"}, path, NULL});
    close(fd);
}

#define WORDS_MAX 16

/* Words between line ends. --config is not among them: it would read files of this machine. */
static int
fuzz_config_words(char *name, char *text, char *argv[WORDS_MAX + 2])
{
    int argc = 1;

    argv[0] = name;
    for (char *word = strtok(text, "\n"); word != NULL && argc <= WORDS_MAX; word = strtok(NULL, "\n"))
        if (strstr(word, "config") == NULL)
            argv[argc++] = word;
    argv[argc] = NULL;
    return argc;
}

static void
command_line(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left), *argv[WORDS_MAX + 2], name[] = "psd";
    int argc = fuzz_config_words(name, text, argv);

    options_from(argc, argv);
    free(text);
}

static void
psrun_line(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left), *argv[WORDS_MAX + 2], name[] = "psrun";
    int argc = fuzz_config_words(name, text, argv);
    struct psrun_options settings;
    struct command_line line;
    struct ps_error e = {0};
    enum ps_err err;

    err = command_parse(&psrun_command, argc, argv, &settings, &line, &e);
    if (err == PS_OK && line.asked == COMMAND_RUN)
        err = psrun_options_check(&settings, &line, &e);
    if (err != PS_OK)
        check_refusal(err, &e);
    free(text);
}

/* ---- How to learn ---- */

static void
fuzz_config_optimizer(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left), written[PS_OPTIMIZER_TEXT_MAX];
    struct ps_optimizer o, again;
    struct ps_error e = {0};
    enum ps_err err = ps_optimizer_parse(text, &o, &e);

    if (err != PS_OK) {
        check_refusal(err, &e);
    } else {
        ps_optimizer_describe(&o, written, sizeof written);
        ps_assert(ps_optimizer_parse(written, &again, &e) == PS_OK && optimizer_equal(&o, &again));
        for (uint64_t t = 1; t != 0; t <<= 7)
            ps_assert(isfinite(schedule_rate(&o.schedule, o.learning_rate, t)));
    }
    free(text);
}

static void
fuzz_config_schedule(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left);
    struct ps_schedule out;
    struct ps_error e = {0};
    enum ps_err err = ps_schedule_parse(text, &out, &e);

    if (err != PS_OK)
        check_refusal(err, &e);
    else if (schedule_check(&out, 0.1, &e) == PS_OK)
        for (uint64_t t = 1; t != 0; t <<= 3)
            ps_assert(isfinite(schedule_rate(&out, 0.1, t)));
    free(text);
}

static void
fuzz_config_clip(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left);
    struct ps_clip out;
    struct ps_error e = {0};
    enum ps_err err = ps_clip_parse(text, &out, &e);

    if (err != PS_OK)
        check_refusal(err, &e);
    else
        ps_assert(clip_check(&out, &e) == PS_OK);
    free(text);
}

static void
fuzz_config_age(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left);
    struct age_policy out;
    struct ps_error e = {0};
    enum ps_err err = age_parse(text, &out, &e);
    float scale;

    if (err != PS_OK) {
        check_refusal(err, &e);
    } else {
        ps_assert(age_check(&out, &e) == PS_OK);
        for (uint64_t a = 1; a != 0; a <<= 3)
            ps_assert((scale = age_scale(&out, a)) == -1 || (scale >= 0 && scale <= 1));
    }
    free(text);
}

#define NETWORK_ELEMENTS_MAX (4 * MIB)

/* One that takes little memory and time to build. */
static bool
is_small(const struct ps_layer *layers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (MAX(layers[i].units, layers[i].filters) > 32 || MAX(layers[i].vocabulary, layers[i].width) > 32 ||
            MAX(layers[i].kernel[0], layers[i].kernel[1]) > 32)
            return false;
    return count <= 8;
}

/* Parsed is not yet possible: shapes must follow each other. */
static void
fuzz_config_build(const struct ps_layer *layers, size_t count)
{
    static ps_device *device; /* for the life of the program */
    struct ps_network_spec spec = {.rank = layers[0].kind == PS_LAYER_EMBEDDING ? 1 : 3,
                                   .dims = {8, 8, 2},
                                   .layers = count,
                                   .layer = layers,
                                   .rows_max = 2};
    ps_network *n = NULL;
    struct ps_error e = {0};
    enum ps_err err;

    if (device == NULL)
        ps_assert(ps_device_open("cpu", NULL, &device, &e) == PS_OK);
    if ((err = ps_network_new(device, &spec, &n, &e)) != PS_OK)
        check_refusal(err, &e);
    else
        ps_assert(ps_network_inputs(n) >= 8 && ps_network_outputs(n) >= 1 &&
                  ps_network_elements(n) <= NETWORK_ELEMENTS_MAX);
    ps_network_free(n);
}

static void
fuzz_config_network(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left);
    struct ps_layer layers[PS_LAYERS_MAX];
    size_t count = 0;
    struct ps_error e = {0};
    enum ps_err err = ps_network_parse(text, layers, &count, &e);

    if (err != PS_OK)
        check_refusal(err, &e);
    else
        ps_assert(count >= 1 && count <= PS_LAYERS_MAX);
    for (size_t i = 0; err == PS_OK && i < count; i++)
        ps_assert(layers[i].kind < PS_LAYER_KINDS);
    if (err == PS_OK && is_small(layers, count))
        fuzz_config_build(layers, count);
    free(text);
}

static void
fuzz_config_assignments(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left), *argv[WORDS_MAX + 2];
    int n = fuzz_config_words(NULL, text, argv) - 1;
    struct assignments *out = malloc(sizeof *out);
    struct ps_error e = {0};
    enum ps_err err;

    ps_assert(out != NULL);
    if (n > 0) {
        err = assignments_parse(argv + 1, n, "w*", out, &e);
        if (err != PS_OK)
            check_refusal(err, &e);
        else
            ps_assert(out->setting.parameters <= ASSIGNMENTS_MAX);
    }
    free(out);
    free(text);
}

/* ---- Numbers and names ---- */

static void
fuzz_config_number(struct fuzz_bytes *b)
{
    char *text = bytes_text(b, b->left), written[NUMBER_TEXT_MAX];
    double value, again;

    if (number_parse(text, &value)) {
        ps_assert(!isnan(value));
        if (isfinite(value))
            ps_assert(number_parse(number_format(value, written), &again) && memcmp(&value, &again, sizeof value) == 0);
    }
    free(text);
}

static void
fuzz_config_units(struct fuzz_bytes *b)
{
    static const struct {
        const struct unit *units;
        const char *bare;
    } families[] = {{units_of_bytes, "B"}, {units_of_ms, "s"}, {units_of_us, "us"}};
    unsigned which = bytes_below(b, ARRAY_LEN(families));
    char *text = bytes_text(b, b->left);
    struct units written;
    uint64_t value, again;

    if (units_parse(text, families[which].units, families[which].bare, &value)) {
        ps_assert(value <= INT64_MAX);
        units_exact(value, families[which].units, &written);
        ps_assert(units_parse(written.text, families[which].units, families[which].bare, &again) && again == value);
    }
    free(text);
}

static void
fuzz_config_pattern(struct fuzz_bytes *b)
{
    size_t half = bytes_one(b);
    char *glob = bytes_text(b, half), *name = bytes_text(b, b->left);

    if (utf8_is_printable(glob, strlen(glob)) && utf8_is_printable(name, strlen(name))) {
        pattern_matches(glob, name);
        ps_assert(pattern_matches("*", name) && pattern_matches("**", name));
        ps_assert(strpbrk(name, "*?") != NULL || pattern_matches(name, name));
    }
    free(glob);
    free(name);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct fuzz_bytes *) = {
        fuzz_config_file,        command_line,       psrun_line,        fuzz_config_optimizer,
        fuzz_config_schedule,    fuzz_config_clip,   fuzz_config_age,   fuzz_config_network,
        fuzz_config_assignments, fuzz_config_number, fuzz_config_units, fuzz_config_pattern};
    struct fuzz_bytes b = {data, size};

    readers[bytes_below(&b, ARRAY_LEN(readers))](&b);
    return 0;
}
