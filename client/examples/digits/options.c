/* One table row per option: its name and the function that takes its value. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base.h"

#include "model.h"

const char digits_options_help[] =
    "digits: train a network on handwritten digits through psd.\n"
    "\n"
    "It is a worker: it finds its cluster in the environment (TF_CONFIG, or PSD_SHARDS). To start a cluster for it:\n"
    "    psrun --shards 2 --workers 3 -- digits [options]\n"
    "\n"
    "Training\n"
    "  --strategy NAME       async, ssp or sync: when a pull is answered and an update happens (default async)\n"
    "  --bound N             ssp: clocks that a worker may run ahead of the slowest (default 4)\n"
    "  --quorum K            sync: gradients that make a step, of all workers; 0: all (default 0)\n"
    "  --age POLICY          how a push counts by the updates since its pull: none, inverse, exponential:BASE,\n"
    "                        cutoff:AGE (default none)\n"
    "  --lapse WHAT          when a worker is lost: shrink (go on without it) or fail (default shrink)\n"
    "  --optimizer TEXT      sgd, momentum, nesterov, adagrad, adam, rmsprop, adamw, adadelta, nadam or ftrl, with "
    "what\n"
    "                        is not as usual after a colon: \"adam:learning_rate=0.002,schedule=cosine,steps=480\"\n"
    "                        (default adam)\n"
    "  --epochs N            times that every image is seen (default 100; conv 50)\n"
    "  --batch N             images in a step, over all workers together (default 96)\n"
    "  --seed N              of first weights and of the order of images (default 1)\n"
    "\n"
    "Network\n"
    "  --model NAME          mlp, a perceptron with a hidden layer of 128, or conv, a small convolutional network\n"
    "                        (default mlp)\n"
    "  --layers TEXT         instead: any network, all but its last layer; '': that one alone. For example\n"
    "                        \"conv 16 5x5 same, relu, maxpool 2, dense 64, tanh\"; ps_network.h lists the layers\n"
    "\n"
    "Machine\n"
    "  --device NAME         where gradients are computed: cpu (default cpu)\n"
    "  --threads N           that compute; 0: OPENBLAS_NUM_THREADS, else cores / workers (default 0)\n"
    "  --timeout SECONDS     how long one exchange with the shards may take (default 60)\n"
    "\n"
    "Files\n"
    "  --data DIR            IDX files named as MNIST's, plain or .gz (default: the digits shipped with psd)\n"
    "  --svg PATH            where worker 0 writes the loss curve; '': nowhere (default digits-loss.svg)\n"
    "  --job NAME            the job's name on the shards (default digits)\n"
    "  --help                this text\n";

struct parser {
    struct digits_options *o;
    const struct model *model;
    struct ps_error *error;
};

/* ---- Values ---- */

static enum ps_err
whole_number(const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *out, struct ps_error *e)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < low || n > high)
        return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not a whole number from %llu to %llu", option, text,
                       (unsigned long long)low, (unsigned long long)high);
    *out = n;
    return PS_OK;
}

static enum ps_err
positive_number(const char *option, const char *text, double *out, struct ps_error *e)
{
    char *end;

    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out) || *out <= 0)
        return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not a number above 0", option, text);
    return PS_OK;
}

/* The index of text in names, a list that ends with NULL. */
static enum ps_err
one_of(const char *option, const char *text, const char *const names[], int *out, struct ps_error *e)
{
    char list[128] = "";

    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            *out = i;
            return PS_OK;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return ps_fail(e, PS_ERR_INVALID, "%s: \"%s\" is not one of %s", option, text, list);
}

/* ---- Options ---- */

static enum ps_err
take_strategy(struct parser *p, const char *option, const char *text)
{
    static const char *const names[] = {[PS_ASYNC] = "async", [PS_SSP] = "ssp", [PS_SYNC] = "sync", NULL};
    int i;
    enum ps_err err = one_of(option, text, names, &i, p->error);

    if (err == PS_OK)
        p->o->mode = (enum ps_mode)i;
    return err;
}

static enum ps_err
take_lapse(struct parser *p, const char *option, const char *text)
{
    static const char *const names[] = {[PS_LAPSE_SHRINK] = "shrink", [PS_LAPSE_FAIL] = "fail", NULL};
    int i;
    enum ps_err err = one_of(option, text, names, &i, p->error);

    if (err == PS_OK)
        p->o->lapse = (enum ps_lapse)i;
    return err;
}

static enum ps_err
take_model(struct parser *p, const char *option, const char *text)
{
    if ((p->model = model_by_name(text)) == NULL)
        return ps_fail(p->error, PS_ERR_INVALID, "%s: \"%s\" is not one of mlp, conv", option, text);
    p->o->layers = p->model->layers;
    return PS_OK;
}

static enum ps_err
take_layers(struct parser *p, const char *option, const char *text)
{
    struct ps_error inner;

    p->o->layers = text;
    if (model_check(text, &inner) != PS_OK)
        return ps_fail(p->error, inner.code, "%s: %s", option, inner.text);
    return PS_OK;
}

/* "none", "inverse", "exponential:0.9", "cutoff:8" */
static enum ps_err
take_age(struct parser *p, const char *option, const char *text)
{
    static const char *const names[] = {[PS_AGE_NONE] = "none",
                                        [PS_AGE_INVERSE] = "inverse",
                                        [PS_AGE_EXPONENTIAL] = "exponential",
                                        [PS_AGE_CUTOFF] = "cutoff",
                                        NULL};
    const char *colon = strchr(text, ':');
    char name[32];
    int i;
    enum ps_err err;

    snprintf(name, sizeof name, "%.*s", colon != NULL ? (int)(colon - text) : (int)strlen(text), text);
    if ((err = one_of(option, name, names, &i, p->error)) != PS_OK)
        return err;
    p->o->age = (enum ps_age)i;
    p->o->age_parameter = 0;
    if ((i == PS_AGE_EXPONENTIAL || i == PS_AGE_CUTOFF) != (colon != NULL))
        return ps_fail(p->error, PS_ERR_INVALID,
                       "%s: \"%s\": exponential and cutoff take a number after a colon, none "
                       "and inverse do not",
                       option, text);
    if (i == PS_AGE_CUTOFF && strcmp(colon, ":0") == 0)
        return PS_OK; /* only gradients of the newest weights count */
    return colon != NULL ? positive_number(option, colon + 1, &p->o->age_parameter, p->error) : PS_OK;
}

static enum ps_err
take_uint32(const char *option, const char *text, uint32_t *out, struct ps_error *e)
{
    uint64_t n;
    enum ps_err err = whole_number(option, text, 0, UINT32_MAX, &n, e);

    if (err == PS_OK)
        *out = (uint32_t)n;
    return err;
}

static enum ps_err
take_bound(struct parser *p, const char *option, const char *text)
{
    return take_uint32(option, text, &p->o->bound, p->error);
}

static enum ps_err
take_quorum(struct parser *p, const char *option, const char *text)
{
    return take_uint32(option, text, &p->o->quorum, p->error);
}

static enum ps_err
take_epochs(struct parser *p, const char *option, const char *text)
{
    return whole_number(option, text, 1, 1000000, &p->o->epochs, p->error);
}

static enum ps_err
take_seed(struct parser *p, const char *option, const char *text)
{
    return whole_number(option, text, 0, UINT64_MAX, &p->o->seed, p->error);
}

static enum ps_err
take_batch(struct parser *p, const char *option, const char *text)
{
    uint64_t n;
    enum ps_err err = whole_number(option, text, 1, 1 << 24, &n, p->error);

    if (err == PS_OK)
        p->o->batch = (size_t)n;
    return err;
}

static enum ps_err
take_threads(struct parser *p, const char *option, const char *text)
{
    uint64_t n;
    enum ps_err err = whole_number(option, text, 0, 1024, &n, p->error);

    if (err == PS_OK)
        p->o->threads = (int)n;
    return err;
}

static enum ps_err
take_timeout(struct parser *p, const char *option, const char *text)
{
    double seconds;
    enum ps_err err = positive_number(option, text, &seconds, p->error);

    if (err == PS_OK)
        p->o->timeout_ms = (int)fmin(ceil(seconds * 1000), INT_MAX);
    return err;
}

/* Rates at which the shipped digits train well, asynchronously too; the large frameworks' defaults are slower. */
static double
usual_learning_rate(const struct ps_optimizer *o)
{
    switch (o->kind) {
    case PS_SGD:
        return 0.2;
    case PS_MOMENTUM:
    case PS_NESTEROV:
        return 0.02;
    case PS_ADAGRAD:
        return 0.04;
    default:
        return o->learning_rate;
    }
}

static enum ps_err
take_optimizer(struct parser *p, const char *option, const char *text)
{
    struct ps_optimizer *o = &p->o->optimizer;
    struct ps_error inner;

    if (ps_optimizer_parse(text, o, &inner) != PS_OK)
        return ps_fail(p->error, inner.code, "%s: %s", option, inner.text);
    if (strstr(text, "learning_rate=") == NULL)
        o->learning_rate = usual_learning_rate(o);
    return PS_OK;
}

static enum ps_err
take_device(struct parser *p, const char *option, const char *text)
{
    (void)option;
    p->o->device = text;
    return PS_OK;
}

static enum ps_err
take_data(struct parser *p, const char *option, const char *text)
{
    (void)option;
    p->o->data = text;
    return PS_OK;
}

static enum ps_err
take_svg(struct parser *p, const char *option, const char *text)
{
    (void)option;
    p->o->svg = text;
    return PS_OK;
}

static enum ps_err
take_job(struct parser *p, const char *option, const char *text)
{
    (void)option;
    p->o->job = text;
    return PS_OK;
}

static const struct {
    const char *name;
    enum ps_err (*take)(struct parser *p, const char *option, const char *text);
} rows[] = {
    {"--strategy", take_strategy}, {"--bound", take_bound},     {"--quorum", take_quorum},
    {"--age", take_age},           {"--lapse", take_lapse},     {"--optimizer", take_optimizer},
    {"--epochs", take_epochs},     {"--batch", take_batch},     {"--seed", take_seed},
    {"--model", take_model},       {"--layers", take_layers},   {"--device", take_device},
    {"--threads", take_threads},   {"--timeout", take_timeout}, {"--data", take_data},
    {"--svg", take_svg},           {"--job", take_job},
};

/* One option: "--name value" or "--name=value". *used: arguments taken. */
static enum ps_err
take_one(struct parser *p, int argc, char **argv, int at, int *used)
{
    const char *arg = argv[at], *equals = strchr(arg, '=');
    size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);

    *used = equals != NULL ? 1 : 2;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strlen(rows[i].name) != len || strncmp(rows[i].name, arg, len) != 0)
            continue;
        if (equals == NULL && at + 1 == argc)
            return ps_fail(p->error, PS_ERR_INVALID, "%s: a value is missing", arg);
        return rows[i].take(p, rows[i].name, equals != NULL ? equals + 1 : argv[at + 1]);
    }
    return ps_fail(p->error, PS_ERR_INVALID, "\"%s\" is not an option; --help lists them", arg);
}

static void
set_defaults(struct digits_options *o)
{
    memset(o, 0, sizeof *o);
    o->mode = PS_ASYNC;
    o->bound = 4;
    o->batch = 96;
    o->seed = 1;
    o->device = "cpu";
    o->job = "digits";
    o->svg = "digits-loss.svg";
    o->timeout_ms = 60000;
}

enum ps_err
digits_options_parse(int argc, char **argv, struct digits_options *out, struct ps_error *error)
{
    struct parser p = {.o = out, .model = &models[0], .error = error};
    enum ps_err err;
    int used;

    set_defaults(out);
    out->layers = p.model->layers;
    if ((err = take_optimizer(&p, "--optimizer", "adam")) != PS_OK)
        return err;
    for (int at = 1; at < argc; at += used) {
        if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            out->help = true;
            return PS_OK;
        }
        if ((err = take_one(&p, argc, argv, at, &used)) != PS_OK)
            return err;
    }
    if (out->epochs == 0)
        out->epochs = p.model->epochs;
    return PS_OK;
}

const char *
digits_options_strategy(const struct digits_options *o, uint32_t workers, char text[64])
{
    uint32_t quorum = o->quorum == 0 ? workers : o->quorum;

    if (o->mode == PS_SSP)
        snprintf(text, 64, "ssp(%u)", o->bound);
    else if (o->mode == PS_SYNC)
        snprintf(text, 64, "sync(%u of %u)", quorum, workers);
    else
        snprintf(text, 64, "async");
    return text;
}
