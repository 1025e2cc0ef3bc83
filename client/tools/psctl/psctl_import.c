/* psctl import: a safetensors file's values into a job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/shared/interrupt.h"
#include "common/core/base/nearest.h"
#include "common/core/base/pattern.h"
#include "common/core/base/units.h"
#include "common/system/safetensors_file.h"

static void
import_print(const struct psctl *p, const char *job, const struct ps_import_report *r)
{
    uint32_t shards = ps_cluster_shards(p->cluster);
    struct units u;

    if (p->settings.json)
        render_print_document(json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:i}", "command", p->command, "path",
                                        render_text(p->words[0]), "job", job, "variables", (json_int_t)r->variables,
                                        "declared", (json_int_t)r->declared, "elements", (json_int_t)r->elements,
                                        "shards", (int)shards),
                              &p->printer);
    else
        printer_line(&p->printer, PAINT_PLAIN,
                     "%" PRIu64 " variable%s of job \"%s\", %" PRIu64 " of them new, %s elements; %u shard%s",
                     r->variables, r->variables == 1 ? "" : "s", job, r->declared, units_count(r->elements, &u), shards,
                     shards == 1 ? "" : "s");
}

/* A pattern that leaves nothing out is said: of a model in several files it may have been meant for another one. */
static void
warn_of_except(const char *file, const struct safetensors *tensors, const char *pattern)
{
    struct nearest nearest = nearest_to(pattern);
    char meant[NEAREST_TEXT_MAX];

    for (size_t i = 0; i < tensors->len; i++) {
        if (pattern_matches(pattern, tensors->tensors[i].name))
            return;
        nearest_offer(&nearest, tensors->tensors[i].name);
    }
    printer_line(&(struct printer){.out = stderr}, PAINT_PLAIN,
                 "psctl: --except %s leaves nothing out: %s has no such tensor%s", pattern, file,
                 nearest_text(&nearest, "", meant));
}

/* A file that cannot be read is what the import says. */
static void
import_warn(const struct psctl *p)
{
    const struct option_list *except = &p->settings.except;
    struct safetensors_file file = {.fd = -1};
    struct ps_error e;

    if (except->len > 0 && safetensors_file_open(p->words[0], &file, &e) == PS_OK)
        for (size_t i = 0; i < except->len; i++)
            warn_of_except(p->words[0], &file.head, except->text[i]);
    safetensors_file_close(&file);
}

/* With --declare a job that is named may be created; otherwise it must exist. */
static int
choose_job(const struct psctl *p, char name[PS_NAME_MAX + 1])
{
    if (p->settings.declare == NULL || p->settings.job == NULL)
        return psctl_choose_job(p, name);
    snprintf(name, PS_NAME_MAX + 1, "%s", p->settings.job);
    return EXIT_SUCCESS;
}

static int
import_run(const struct psctl *p, const struct ps_import_options *options)
{
    struct ps_import_report report;
    struct lost_shard lost;
    ps_client *client;
    struct ps_error e;
    enum ps_err err;

    if (psctl_open_all(p, &lost, &client, &e) != PS_OK)
        return psctl_failed(&e);
    interrupt_signals(client);
    err = ps_client_import(client, p->words[0], options, (int)p->work_ms, &report, &e);
    interrupt_signals(NULL);
    err = lost_shard_end(&lost, err, &e);
    ps_client_close(client);
    if (err == PS_ERR_CANCELLED)
        interrupt_end(e.text, "");
    if (err != PS_OK)
        return psctl_failed(&e);
    import_warn(p);
    import_print(p, options->job, &report);
    return EXIT_SUCCESS;
}

int
psctl_import(struct psctl *p)
{
    char job[PS_NAME_MAX + 1];
    struct ps_import_options options = {.job = job,
                                        .variables = p->settings.variables,
                                        .except = p->settings.except.text,
                                        .except_len = p->settings.except.len,
                                        .dir = p->settings.through,
                                        .make_job = p->settings.job != NULL,
                                        .mode = (enum ps_mode)p->settings.mode,
                                        .bound = (uint32_t)p->settings.bound,
                                        .workers = (uint32_t)p->settings.workers};
    struct ps_optimizer optimizer;
    struct ps_error e;
    int status;

    p->restores = true;
    if (p->settings.declare != NULL && ps_optimizer_parse(p->settings.declare, &optimizer, &e) != PS_OK)
        return psctl_usage(&e);
    options.declare = p->settings.declare != NULL ? &optimizer : NULL;
    if ((status = choose_job(p, job)) != EXIT_SUCCESS)
        return status;
    return import_run(p, &options);
}
