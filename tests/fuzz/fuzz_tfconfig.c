/* Texts that say where processes run: TF_CONFIG, lists of shards, addresses, psrun's host lists.
 *
 * The first byte chooses the reader, the rest is the text. What is accepted holds what the headers promise; what is
 * refused has a code and a sentence. */
#include "tests/fuzz/bytes.h"

#include "client/tools/psrun/assign_hosts.h"
#include "client/tools/psrun/host_spec.h"
#include "common/core/cluster/address.h"
#include "common/core/cluster/tfconfig.h"
#include "common/core/wire/wire.h"

static void
check_refusal(enum ps_err err, const struct ps_error *e)
{
    ps_assert(err == e->code && e->text[0] != '\0' && strlen(e->text) < sizeof e->text);
}

static void
check_address(const struct address *a)
{
    ps_assert(a->is_unix == (a->path[0] != '\0') && a->is_unix != (a->host[0] != '\0'));
}

/* whole: no address may be left out; else those of shards may not. */
static void
check_config(const struct tf_config *c, bool whole)
{
    struct ps_error e;
    struct address a;

    for (int job = 0; job < TF_JOBS; job++) {
        ps_assert(c->jobs[job].len <= TF_ADDRESSES_MAX);
        for (uint32_t i = 0; i < c->jobs[job].len; i++) {
            if (c->jobs[job].text[i] == NULL) {
                ps_assert(!whole && job != TF_PS);
                continue;
            }
            ps_assert(address_parse(c->jobs[job].text[i], &a, &e) == PS_OK);
            check_address(&a);
        }
    }
}

static void
fuzz_tfconfig_json(const char *text)
{
    struct tf_config c;
    struct ps_error e = {0};
    enum ps_err err = tf_config_parse(text, &c, &e);

    if (err == PS_OK) {
        check_config(&c, false);
        ps_assert((c.index < c.jobs[c.type].len && c.jobs[c.type].text[c.index] != NULL) ||
                  (c.type == TF_EVALUATOR && c.index == 0));
    } else {
        check_refusal(err, &e);
    }
    tf_config_finish(&c);
}

static void
fuzz_tfconfig_cluster(const char *text)
{
    struct tf_config c;
    struct ps_error e = {0};
    bool task;
    enum ps_err err = tf_config_parse_cluster(text, &c, &task, &e);

    if (err == PS_OK)
        check_config(&c, true);
    else
        check_refusal(err, &e);
    tf_config_finish(&c);
}

static void
fuzz_tfconfig_list(const char *text)
{
    struct tf_config c;
    struct ps_error e = {0};
    enum ps_err err = tf_config_parse_list("PSD_SHARDS", text, &c, &e);

    if (err == PS_OK) {
        ps_assert(c.jobs[TF_PS].len >= 1);
        check_config(&c, true);
    } else {
        check_refusal(err, &e);
    }
    tf_config_finish(&c);
}

static void
fuzz_tfconfig_address(const char *text)
{
    struct address a;
    struct ps_error e = {0};
    enum ps_err err = address_parse(text, &a, &e);

    if (err == PS_OK)
        check_address(&a);
    else
        check_refusal(err, &e);
}

/* A name that ssh or a shell could take for something else never gets through. */
static void
check_host(const struct host_spec *h)
{
    ps_assert(h->login[0] != '\0' && h->login[0] != '-' && h->name[0] != '\0' && h->name[0] != '-');
    ps_assert(strpbrk(h->login, " \t\n;&|<>$`\\\"'*?(){}!#~") == NULL);
    host_spec_is_loopback(h->name);
    host_spec_is_here(h->name, "hosta.example.org");
}

static void
fuzz_tfconfig_host(const char *text)
{
    struct host_spec h;
    struct ps_error e = {0};
    enum ps_err err = host_spec_parse("--hosts[0]", text, &h, &e);

    if (err == PS_OK)
        check_host(&h);
    else
        check_refusal(err, &e);
    err = host_spec_parse_address("--ps-hosts[0]", text, &h, &e);
    if (err == PS_OK) {
        char written[ADDRESS_MAX];
        struct address a;

        check_host(&h);
        host_spec_address(h.name, h.port, written);
        ps_assert(address_parse(written, &a, &e) == PS_OK && a.port == h.port && strcmp(a.host, h.name) == 0);
    } else {
        check_refusal(err, &e);
    }
}

static void
check_deal(const struct psrun_options *settings, const char *cluster_text)
{
    struct host_assignment deal = {0};
    struct ps_error e = {0};
    enum ps_err err = assign_hosts_all(settings, cluster_text, "hosta.example.org", &deal, &e);
    char name[512];

    for (uint32_t i = 0; err == PS_OK && i < deal.shards + deal.workers; i++) {
        assign_hosts_name(&deal.tasks[i], name, sizeof name);
        ps_assert(name[0] != '\0' && (deal.tasks[i].job == TF_PS) == (i < deal.shards));
        ps_assert(!deal.tasks[i].remote || deal.tasks[i].host.login[0] != '\0');
    }
    ps_assert(err != PS_OK || deal.workers >= 1); /* workers alone are a cluster, too */
    if (err != PS_OK)
        check_refusal(err, &e);
    assign_hosts_finish(&deal);
}

static void
deal_of_hosts(struct fuzz_bytes *b)
{
    unsigned form = bytes_below(b, 4);
    struct psrun_options settings = {
        .shards = bytes_below(b, 5), .workers = bytes_below(b, 5), .worker_port = 2222 * bytes_below(b, 2)};
    char *first, *second = NULL;
    size_t half;

    half = form == 1 ? bytes_one(b) : b->left;
    first = bytes_text(b, half);
    second = form == 1 ? bytes_text(b, b->left) : NULL;
    if (form == 0)
        settings.hosts = first;
    if (form == 1 || form == 2)
        settings.ps_hosts = first;
    if (form == 1)
        settings.worker_hosts = second;
    check_deal(&settings, form == 3 ? first : NULL);
    free(first);
    free(second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(const char *) = {fuzz_tfconfig_json, fuzz_tfconfig_cluster, fuzz_tfconfig_list,
                                                    fuzz_tfconfig_address, fuzz_tfconfig_host};
    struct fuzz_bytes b = {data, size};
    unsigned which = bytes_below(&b, ARRAY_LEN(readers) + 1);
    char *text;

    if (which == ARRAY_LEN(readers)) {
        deal_of_hosts(&b);
        return 0;
    }
    text = bytes_text(&b, b.left);
    readers[which](text);
    free(text);
    return 0;
}
