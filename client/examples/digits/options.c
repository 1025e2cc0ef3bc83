#include "client/examples/digits/options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/core/model/age.h"
#include "ps_strategy.h"

#include "client/examples/digits/model.h"

#define FIELD(field) .offset = offsetof(struct digits_options, field)

/* The strategies' names, and those of parameter_server's modes, which choose both. */
enum strategy_choice {
#define CHOICE_ENUM(name) CHOICE_##name,
    PS_STRATEGY_LIST(CHOICE_ENUM)
#undef CHOICE_ENUM
        CHOICE_MODES
};
static const struct option_choice strategies[] = {
#define CHOICE_ROW(name) {#name, CHOICE_##name},
    PS_STRATEGY_LIST(CHOICE_ROW)
#undef CHOICE_ROW
        {"async", CHOICE_MODES + PS_ASYNC},
    {"ssp", CHOICE_MODES + PS_SSP},
    {"sync", CHOICE_MODES + PS_SYNC},
    {NULL, 0}};
static const struct option_choice precisions[] = {
    {"float32", PS_PRECISION_FLOAT32}, {"tf32", PS_PRECISION_TF32}, {"bfloat16", PS_PRECISION_BFLOAT16}, {NULL, 0}};
static const struct option_choice modes[] = {{"async", PS_ASYNC}, {"ssp", PS_SSP}, {"sync", PS_SYNC}, {NULL, 0}};
static const struct option_choice lapses[] = {{"shrink", PS_LAPSE_SHRINK}, {"fail", PS_LAPSE_FAIL}, {NULL, 0}};

static const struct option table[] = {
    {.name = "strategy",
     .kind = OPTION_CHOICE,
     .argument = "NAME",
     .fallback = "async",
     .choices = strategies,
     FIELD(strategy_choice),
     .section = "Training",
     .help = "how training is distributed: one_device, mirrored or central_storage in this process; "
             "multi_worker_mirrored, parameter_server or local_sgd by all workers. async, ssp and sync are "
             "parameter_server in that mode"},
    {.name = "mode",
     .kind = OPTION_CHOICE,
     .argument = "MODE",
     .fallback = "async",
     .choices = modes,
     FIELD(mode),
     .help = "parameter_server: async, ssp or sync: when a pull is answered and an update happens"},
    {.name = "replicas",
     .kind = OPTION_INT,
     .argument = "N",
     .usual = "2 for mirrored and central_storage on a CPU, else one for each device",
     .min = 1,
     .max = PS_STRATEGY_REPLICAS_MAX,
     FIELD(replicas),
     .help = "replicas of the network in this process, each with a slice of every batch"},
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
     .help = "when a worker is lost: shrink (go on without it, or with its replacement) or fail"},
    {.name = "min-workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "1",
     .min = 1,
     .max = UINT32_MAX,
     FIELD(min_workers),
     .help = "multi_worker_mirrored, --lapse shrink: go on only while so many workers are left; with more than half of "
             "all, at most one side of a network that was cut goes on"},
    {.name = "optimizer",
     .kind = OPTION_NAME,
     .argument = "TEXT",
     .fallback = "adam",
     FIELD(optimizer_text),
     .help = "sgd, momentum, nesterov, adagrad, adam, rmsprop, adamw, adadelta, nadam or ftrl, with what is not as "
             "usual after a colon: \"adam:learning_rate=0.002,schedule=cosine,steps=480\""},
    {.name = "local-steps",
     .kind = OPTION_INT,
     .argument = "H",
     .fallback = "8",
     .min = 1,
     .max = 1000000,
     FIELD(local_steps),
     .help = "local_sgd: steps that a worker takes by itself before its difference goes to the shards"},
    {.name = "outer",
     .kind = OPTION_NAME,
     .argument = "TEXT",
     .fallback = "nesterov:learning_rate=0.7,momentum=0.9",
     FIELD(outer_text),
     .help = "local_sgd: the shards' optimizer, as --optimizer; sgd:learning_rate=1 takes the mean of the workers"},
    {.name = "compress",
     .kind = OPTION_NAME,
     .argument = "TEXT",
     .fallback = "none",
     FIELD(compress_text),
     .help = "what gradients travel as, to shards or between workers: none, float16, bfloat16, int8, or top_k with the "
             "fraction that goes, top_k:0.05. What is left out comes with later gradients"},
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
     .help = "where gradients are computed: cpu, cuda (an NVIDIA GPU; cuda:1 is the second one), or several devices "
             "between commas, for the replicas in turn"},
    {.name = "precision",
     .kind = OPTION_CHOICE,
     .argument = "NAME",
     .fallback = "float32",
     .choices = precisions,
     FIELD(precision),
     .help = "in what devices multiply: float32, or on GPUs tf32 or bfloat16, which are faster and less exact. Sums, "
             "weights and all else are float32"},
    {.name = "device-reduce",
     .kind = OPTION_FLAG,
     FIELD(device_reduce),
     .help = "multi_worker_mirrored on GPUs: they sum the gradients of all workers by themselves (NCCL), once the "
             "backward pass is done, and uncompressed"},
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
     .help = "how long one exchange with the shards or the other workers may take, in seconds or with ms, s, m, h"},
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
    {.name = "may-differ",
     .kind = OPTION_TEXT,
     .argument = "NAMES",
     FIELD(may_differ),
     .help = "in what this worker may differ from the others on shards, between commas: rows, data, epochs, seed, "
             "batch and the like. Else workers that were not started with the same end with MISMATCH"},
    {.name = "checkpoints",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     FIELD(checkpoints),
     .help = "where the chief saves a checkpoint after every epoch"},
    {.name = "restore",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     FIELD(restore),
     .help = "begin where this checkpoint ended; what is on shards psctl restore puts there"},
    {.name = "svg",
     .kind = OPTION_TEXT,
     .argument = "PATH",
     .fallback = "digits-loss.svg",
     FIELD(svg),
     .help = "where the chief writes the loss curve; '': nowhere"},
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
        "    psrun --shards 2 --workers 3 -- digits [options]\n"
        "\n"
        "Strategies of one process need none: digits --strategy mirrored --replicas 4",
    .options = table,
    .options_len = ARRAY_LEN(table),
};

/* ---- Interpreting the texts ---- */

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
read_local(struct digits_options *o, struct ps_error *e)
{
    struct ps_error inner;

    if (ps_optimizer_parse(o->outer_text, &o->local.outer, &inner) != PS_OK)
        return ps_fail(e, inner.code, "--outer: %s", inner.text);
    if (o->strategy_choice == CHOICE_local_sgd)
        o->local.steps = (uint32_t)o->local_steps;
    return PS_OK;
}

static enum ps_err
read_compress(struct digits_options *o, struct ps_error *e)
{
    struct ps_error inner;

    if (ps_compress_parse(o->compress_text, &o->compress, &inner) != PS_OK)
        return ps_fail(e, inner.code, "--compress: %s", inner.text);
    return PS_OK;
}

static enum ps_err
read_model(struct digits_options *o, struct ps_error *e)
{
    const struct digits_model *model = model_by_name(o->model);
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

static void
read_strategy(struct digits_options *o)
{
    bool threads = o->strategy_choice == CHOICE_mirrored || o->strategy_choice == CHOICE_central_storage;

    if (o->strategy_choice >= CHOICE_MODES) {
        o->mode = (enum ps_mode)(o->strategy_choice - CHOICE_MODES);
        o->strategy_choice = CHOICE_parameter_server;
    }
    o->strategy = ps_strategy_name((size_t)o->strategy_choice);
    if (o->replicas == 0 && threads && strcmp(o->device, "cpu") == 0)
        o->replicas = 2;
}

bool
digits_options_need_cluster(const struct digits_options *o)
{
    return o->strategy_choice != CHOICE_one_device && o->strategy_choice != CHOICE_mirrored &&
           o->strategy_choice != CHOICE_central_storage;
}

enum ps_err
digits_options_parse(int argc, char **argv, struct digits_options *out, struct ps_error *error)
{
    enum ps_err err;

    *out = (struct digits_options){0};
    err = command_parse(&digits_command, argc, argv, out, &out->line, error);
    if (err != PS_OK || out->line.asked != COMMAND_RUN)
        return err;
    read_strategy(out);
    if ((err = read_age(out, error)) != PS_OK || (err = read_optimizer(out, error)) != PS_OK ||
        (err = read_local(out, error)) != PS_OK || (err = read_compress(out, error)) != PS_OK)
        return err;
    return read_model(out, error);
}
