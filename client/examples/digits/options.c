#include "options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/age.h"

#include "model.h"

#define FIELD(field) .offset = offsetof(struct digits_options, field)

static const struct option_choice strategies[] = {{"async", PS_ASYNC}, {"ssp", PS_SSP}, {"sync", PS_SYNC}, {NULL, 0}};
static const struct option_choice lapses[] = {{"shrink", PS_LAPSE_SHRINK}, {"fail", PS_LAPSE_FAIL}, {NULL, 0}};

static const struct option table[] = {
    {.name = "strategy",
     .kind = OPTION_CHOICE,
     .argument = "NAME",
     .fallback = "async",
     .choices = strategies,
     FIELD(mode),
     .section = "Training",
     .help = "async, ssp or sync: when a pull is answered and an update happens"},
    {.name = "bound",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "4",
     .max = UINT32_MAX,
     FIELD(bound),
     .help = "ssp: clocks that a worker may run ahead of the slowest"},
    {.name = "quorum",
     .kind = OPTION_INT,
     .argument = "K",
     .fallback = "0",
     .max = UINT32_MAX,
     FIELD(quorum),
     .help = "sync: gradients that make a step, of all workers; 0: all"},
    {.name = "age",
     .kind = OPTION_NAME,
     .argument = "POLICY",
     .fallback = "none",
     FIELD(age_text),
     .help = "how a push counts by the updates since its pull: none, inverse, exponential:BASE, cutoff:AGE"},
    {.name = "lapse",
     .kind = OPTION_CHOICE,
     .argument = "WHAT",
     .fallback = "shrink",
     .choices = lapses,
     FIELD(lapse),
     .help = "when a worker is lost: shrink (go on without it) or fail"},
    {.name = "optimizer",
     .kind = OPTION_NAME,
     .argument = "TEXT",
     .fallback = "adam",
     FIELD(optimizer_text),
     .help = "sgd, momentum, nesterov, adagrad, adam, rmsprop, adamw, adadelta, nadam or ftrl, with what is not as "
             "usual after a colon: \"adam:learning_rate=0.002,schedule=cosine,steps=480\""},
    {.name = "epochs",
     .kind = OPTION_INT,
     .argument = "N",
     .usual = "100; of conv 50",
     .min = 1,
     .max = 1000000,
     FIELD(epochs),
     .help = "times that every image is seen"},
    {.name = "batch",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "96",
     .min = 1,
     .max = 1 << 24,
     FIELD(batch),
     .help = "images in a step, over all workers together"},
    {.name = "seed",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "1",
     FIELD(seed),
     .help = "of first weights and of the order of images"},
    {.name = "model",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "mlp",
     FIELD(model),
     .section = "Network",
     .help = "mlp, a perceptron with a hidden layer of 128, or conv, a small convolutional network"},
    {.name = "layers",
     .kind = OPTION_TEXT,
     .argument = "TEXT",
     FIELD(layers),
     .help = "instead of the model's: any network, all but its last layer; '': that one alone. For example \"conv 16 "
             "5x5 same, relu, maxpool 2, dense 64, tanh\"; ps_network.h lists the layers"},
    {.name = "device",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "cpu",
     FIELD(device),
     .section = "Machine",
     .help = "where gradients are computed: cpu"},
    {.name = "threads",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "0",
     .max = 1024,
     FIELD(threads),
     .help = "that compute; 0: OPENBLAS_NUM_THREADS, else cores / workers"},
    {.name = "timeout",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "60s",
     .min = 1,
     .max = 24 * 3600 * 1000,
     FIELD(timeout_ms),
     .help = "how long one exchange with the shards may take, in seconds or with ms, s, m, h"},
    {.name = "durable",
     .kind = OPTION_FLAG,
     FIELD(durable),
     .help = "a step is done when it is on the shards' disks, where it survives a power loss (psd --durable-dir)"},
    {.name = "data",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .usual = "the digits shipped with psd",
     FIELD(data),
     .section = "Files",
     .help = "IDX files named as MNIST's, plain or .gz"},
    {.name = "svg",
     .kind = OPTION_TEXT,
     .argument = "PATH",
     .fallback = "digits-loss.svg",
     FIELD(svg),
     .help = "where worker 0 writes the loss curve; '': nowhere"},
    {.name = "job",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "digits",
     FIELD(job),
     .help = "the job's name on the shards"},
};

const struct command digits_command = {
    .name = "digits",
    .manual = 1,
    .title = "train a network on handwritten digits through psd",
    .about =
        "Train a network on handwritten digits through psd. It is a worker: it finds its cluster in the environment "
        "(TF_CONFIG, or PSD_SHARDS). To start a cluster for it:\n"
        "\n"
        "    psrun --shards 2 --workers 3 -- digits [options]",
    .options = table,
    .options_len = ARRAY_LEN(table),
};

/* ---- What the texts mean ---- */

static enum ps_err
read_age(struct digits_options *o, struct ps_error *e)
{
    struct age_policy policy;
    struct ps_error why;

    if (age_parse(o->age_text, &policy, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "--age: %s", why.text);
    o->age = (enum ps_age)policy.kind;
    o->age_parameter = policy.parameter;
    return PS_OK;
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
read_optimizer(struct digits_options *o, struct ps_error *e)
{
    struct ps_error inner;

    if (ps_optimizer_parse(o->optimizer_text, &o->optimizer, &inner) != PS_OK)
        return ps_fail(e, inner.code, "--optimizer: %s", inner.text);
    if (strstr(o->optimizer_text, "learning_rate=") == NULL)
        o->optimizer.learning_rate = usual_learning_rate(&o->optimizer);
    return PS_OK;
}

static enum ps_err
read_model(struct digits_options *o, struct ps_error *e)
{
    const struct model *model = model_by_name(o->model);
    struct ps_error inner;

    if (model == NULL)
        return ps_fail(e, PS_ERR_INVALID, "--model: expected one of mlp, conv, got '%.64s'", o->model);
    if (o->layers == NULL)
        o->layers = model->layers;
    else if (model_check(o->layers, &inner) != PS_OK)
        return ps_fail(e, inner.code, "--layers: %s", inner.text);
    if (o->epochs == 0)
        o->epochs = model->epochs;
    return PS_OK;
}

enum ps_err
digits_options_parse(int argc, char **argv, struct digits_options *out, struct ps_error *error)
{
    enum ps_err err;

    *out = (struct digits_options){0};
    err = command_parse(&digits_command, argc, argv, out, &out->line, error);
    if (err != PS_OK || out->line.asked != COMMAND_RUN)
        return err;
    if ((err = read_age(out, error)) != PS_OK || (err = read_optimizer(out, error)) != PS_OK)
        return err;
    return read_model(out, error);
}

const char *
digits_options_strategy(const struct digits_options *o, uint32_t workers, char text[64])
{
    uint64_t quorum = o->quorum == 0 ? workers : o->quorum;

    if (o->mode == PS_SSP)
        snprintf(text, 64, "ssp(%" PRIu64 ")", o->bound);
    else if (o->mode == PS_SYNC)
        snprintf(text, 64, "sync(%" PRIu64 " of %u)", quorum, workers);
    else
        snprintf(text, 64, "async");
    return text;
}
