/* psctl export: a job's weights as a safetensors file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/export.h"
#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/named_variables.h"
#include "client/tools/shared/strlist.h"
#include "common/core/base/units.h"

/* ---- The report ---- */

static void
print_moment(const struct psctl *p, const struct export_report *r)
{
    struct units u;

    if (p->settings.from_checkpoint != NULL && r->one_moment)
        printer_line(&p->printer, PAINT_PLAIN, "all of clock %" PRIu64, r->clock);
    else if (p->settings.from_checkpoint != NULL)
        printer_line(&p->printer, PAINT_PLAIN, "each shard's part is of one instant; the slowest clock was %" PRIu64,
                     r->clock);
    else if (r->one_moment)
        printer_line(&p->printer, PAINT_PLAIN, "of one moment: nothing was updated meanwhile");
    else
        printer_line(&p->printer, PAINT_WARNING,
                     "%s blocks were updated meanwhile, and blocks may be of different moments; checkpoint and export "
                     "--from-checkpoint give one",
                     units_count(r->changed, &u));
}

static void
export_print(const struct psctl *p, const struct export_report *r)
{
    bool checkpoint = p->settings.from_checkpoint != NULL;
    struct units u;

    if (p->settings.json) {
        render_print_document(json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:b,s:o}", "command", p->command, "path",
                                        render_text(p->words[0]), "job", r->job, "variables", (json_int_t)r->variables,
                                        "bytes", (json_int_t)r->bytes, "changed_blocks", (json_int_t)r->changed,
                                        "one_moment", (int)r->one_moment, "clock",
                                        checkpoint ? json_integer((json_int_t)r->clock) : json_null()),
                              &p->printer);
        return;
    }
    printer_line(&p->printer, PAINT_PLAIN, "%" PRIu64 " variable%s of job \"%s\", %s, in %s", r->variables,
                 r->variables == 1 ? "" : "s", r->job, units_bytes(r->bytes, &u), p->words[0]);
    print_moment(p, r);
}

/* ---- From the shards ---- */

static void
export_add_name(void *names, const char *name)
{
    strlist_add(names, "%s", name);
}

static int
export_pull_live(const struct psctl *p, const char *job, const struct strlist *names, struct export_report *report)
{
    struct lost_shard lost;
    ps_client *client;
    struct ps_error e;
    enum ps_err err;
    int status;

    if ((status = psctl_open_job(p, job, &lost, &client)) != EXIT_SUCCESS)
        return status;
    err = export_pull(client, job, names->len, (const char *const *)names->text, p->words[0], (int)p->work_ms, report,
                      &e);
    err = lost_shard_end(&lost, err, &e);
    ps_client_close(client);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}

static int
export_job(const struct psctl *p, const char *job, struct export_report *report)
{
    struct shard_question question = {
        .queries = QUERY_BIT(PS_QUERY_VARIABLES), .job = job, .timeout_ms = (int)p->settings.timeout_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct strlist names = {0};
    struct shard_answer *answers;
    struct ps_error e;
    int status;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if ((status = psctl_need_all(answers, n)) == EXIT_SUCCESS &&
        named_variables(answers, n, job, p->settings.variables, export_add_name, &names, &e) != PS_OK)
        status = psctl_failed(&e);
    answers_free(answers, n);
    if (status == EXIT_SUCCESS)
        status = export_pull_live(p, job, &names, report);
    strlist_free(&names);
    return status;
}

int
psctl_export(struct psctl *p)
{
    struct export_report report;
    char job[PS_NAME_MAX + 1];
    struct ps_error e;
    int status;

    if (p->settings.from_checkpoint != NULL) {
        if (export_checkpoint(p->settings.from_checkpoint, p->settings.variables, p->words[0], &report, &e) != PS_OK)
            return psctl_failed(&e);
    } else if ((status = psctl_choose_job(p, job)) != EXIT_SUCCESS ||
               (status = export_job(p, job, &report)) != EXIT_SUCCESS) {
        return status;
    }
    export_print(p, &report);
    return EXIT_SUCCESS;
}
