/* Reports for psctl: their contents, and that they are true. */
#include "server/core/shard/report_builder.h"
#include "server/core/shard_state.h"
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <string.h>

static void
report_setup(void)
{
    struct shard_config config = {.cluster = "test",
                                  .shards = 1,
                                  .boot = 7,
                                  .version = "1.2",
                                  .live_dir = "/live",
                                  .pid = 99,
                                  .in_flight_bytes_max = 1000};

    kit_init(&k, &config);
}

static void
report_send(uint64_t conn, Psd__QueryKind kind, const char *job, const char *after, uint64_t from)
{
    Psd__Query m = PSD__QUERY__INIT;

    m.kind = kind;
    m.job = (char *)job;
    m.after = (char *)after;
    m.from = from;
    kit_drop_answers(&k, conn);
    kit_frame(&k, conn, MSG_QUERY, 77, &m.base, NULL, 0);
}

static struct kit_answer *
report_ask(uint64_t conn, Psd__QueryKind kind, const char *job, const char *after)
{
    report_send(conn, kind, job, after, 0);
    return kit_expect(&k, conn, MSG_REPORT);
}

/* One that goes on from a number. One event looks at no more than it may, and one entry. */
static struct kit_answer *
report_ask_from(uint64_t conn, Psd__QueryKind kind, const char *job, uint64_t from)
{
    uint64_t looks = k.shard->looks;

    report_send(conn, kind, job, "", from);
    ck_assert_uint_le(k.shard->looks - looks, REPORT_LOOKS_MAX + 100);
    return kit_expect(&k, conn, MSG_REPORT);
}

/* Declares "w0000" and so on. */
static void
report_declare_many(uint64_t conn, int n)
{
    k.hold = true;
    for (int i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "w%04d", i);
        kit_declare_as(&k, conn, (uint64_t)i + 1, name, NULL, 0, PS_SGD, PSD__INIT_KIND__ZEROS);
    }
    k.hold = false;
    kit_work(&k);
}

START_TEST(status_says_what_the_shard_is_and_holds)
{
    struct kit_answer *a;
    const Psd__StatusReport *m;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare(&k, 1, "w", 5000, PS_SGD);
    kit_pass(&k, 250);
    a = report_ask(1, PSD__QUERY_KIND__STATUS, "", "");
    ck_assert_uint_eq(a->msg.request, 77);
    m = a->msg.u.report->status;
    ck_assert_str_eq(m->cluster, "test");
    ck_assert_str_eq(m->version, "1.2");
    ck_assert_str_eq(m->live_dir, "/live");
    ck_assert_uint_eq(m->pid, 99);
    ck_assert_uint_eq(m->boot, 7);
    ck_assert_uint_eq(m->uptime_ms, 250);
    ck_assert_uint_eq(m->connections, 1);
    ck_assert_uint_eq(m->workers, 1);
    ck_assert_uint_eq(m->variables, 1);
    ck_assert_uint_eq(m->blocks, 5);
    ck_assert_uint_eq(m->data_bytes, 5 * layout_value_size(0));
    ck_assert_uint_eq(m->store_bytes_max, 256 * MIB);
    ck_assert_uint_eq(m->in_flight_bytes, 123);
    ck_assert_uint_eq(m->in_flight_bytes_max, 1000);
    ck_assert(!m->draining);
    kit_answer_free(a);
}
END_TEST

START_TEST(variables_are_counted_one_by_one)
{
    const uint64_t first = 0; /* so that they are 0, 1 and 2 updates old */
    float g[10] = {1}, out[10];
    struct kit_answer *a;
    const Psd__VariableReport *m;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare(&k, 1, "b", 10, PS_ADAM);
    kit_declare(&k, 1, "a", 10, PS_SGD);
    for (uint64_t seq = 1; seq <= 3; seq++)
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = 1, .gradient = g, .len = 10, .from_version = &first});
    g[0] = NAN;
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = 1, .gradient = g, .len = 10});
    kit_drop_answers(&k, 1);
    kit_read(&k, 1, 1, 0, out, 10);
    a = report_ask(1, PSD__QUERY_KIND__VARIABLES, "train", "");
    ck_assert_uint_eq(a->msg.u.report->n_variable, 2);
    ck_assert(!a->msg.u.report->more);
    ck_assert_str_eq(a->msg.u.report->variable[1]->name, "a"); /* as they were declared */
    m = a->msg.u.report->variable[0];
    ck_assert_str_eq(m->job, "train");
    ck_assert_str_eq(m->name, "b");
    ck_assert_str_eq(m->initializer, "zeros");
    ck_assert_ptr_nonnull(strstr(m->optimizer, "adam"));
    ck_assert_uint_eq(m->n_dims, 1);
    ck_assert_uint_eq(m->dims[0], 10);
    ck_assert_uint_eq(m->blocks, 1);
    ck_assert_uint_eq(m->version_min, 3);
    ck_assert_uint_eq(m->version_max, 3);
    ck_assert_uint_eq(m->pushes, 3);
    ck_assert_uint_eq(m->ages, 3);
    ck_assert_uint_eq(m->pushed_bytes, 120);
    ck_assert_uint_eq(m->refused, 1);
    ck_assert_uint_eq(m->pulls, 1);
    ck_assert_uint_eq(m->pulled_bytes, 40);
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__VARIABLES, "other", "");
    ck_assert_uint_eq(a->msg.u.report->n_variable, 0);
    kit_answer_free(a);
}
END_TEST

/* One update, but the bytes of every worker. */
START_TEST(each_gradient_of_a_step_counts_as_a_push)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 3);
    float g[10] = {1};
    struct kit_answer *a;
    const Psd__VariableReport *m;

    job->quorum = 3;
    for (uint32_t task = 0; task < 3; task++)
        kit_join(&k, task + 1, job, task);
    kit_declare(&k, 1, "w", 10, PS_SGD);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_push(&k, conn, &(struct kit_push){.seq = 1, .var = 1, .gradient = g, .len = 10});
    kit_drop_answers(&k, 1);
    a = report_ask(1, PSD__QUERY_KIND__VARIABLES, "train", "");
    m = a->msg.u.report->variable[0];
    ck_assert_uint_eq(m->version_max, 1);
    ck_assert_uint_eq(m->pushes, 3);
    ck_assert_uint_eq(m->pushed_bytes, 120);
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__STATS, "", "");
    ck_assert_uint_eq(a->msg.u.report->stats->pushes_applied, 3);
    ck_assert_uint_eq(a->msg.u.report->stats->pushed_bytes, 120);
    kit_answer_free(a);
}
END_TEST

/* As older clients ask. */
START_TEST(many_variables_come_in_pages)
{
    enum { N = 1000 };
    char after[64] = "";
    int seen = 0, pages = 0;
    bool more;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    report_declare_many(1, N);
    do {
        struct kit_answer *a = report_ask(1, PSD__QUERY_KIND__VARIABLES, pages % 2 == 0 ? "" : "train", after);
        const Psd__Report *r = a->msg.u.report;

        for (size_t i = 0; i < r->n_variable; i++) {
            char name[32];

            snprintf(name, sizeof name, "w%04d", seen++);
            ck_assert_str_eq(r->variable[i]->name, name);
        }
        more = r->more;
        ck_assert(!more || r->n_variable > 0);
        if (more)
            snprintf(after, sizeof after, "train/%.32s", r->variable[r->n_variable - 1]->name);
        kit_answer_free(a);
        pages++;
    } while (more);
    ck_assert_int_eq(seen, N);
    ck_assert_int_ge(pages, 4);
}
END_TEST

/* Not the square: a page finds its begin without a walk. */
START_TEST(list_of_all_variables_looks_at_each_once)
{
    enum { N = 5000 };
    static const Psd__QueryKind kinds[] = {PSD__QUERY_KIND__VARIABLES, PSD__QUERY_KIND__DEFINITIONS};

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    report_declare_many(1, N);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        uint64_t from = 0, looks = k.shard->looks;
        size_t seen = 0;

        do {
            struct kit_answer *a = report_ask_from(1, kinds[i], "train", from);
            const Psd__Report *r = a->msg.u.report;

            seen += r->n_variable + r->n_definition;
            ck_assert(r->more == (r->next > from));
            from = r->next;
            kit_answer_free(a);
        } while (from != 0);
        ck_assert_uint_eq(seen, N);
        ck_assert_uint_le(k.shard->looks - looks, 3 * N);
    }
}
END_TEST

START_TEST(what_is_declared_meanwhile_takes_nothing_from_a_list)
{
    bool seen[600] = {false};
    uint64_t from = 0;
    int declared = 0;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    report_declare_many(1, 500);
    do {
        struct kit_answer *a = report_ask_from(1, PSD__QUERY_KIND__VARIABLES, "", from);
        const Psd__Report *r = a->msg.u.report;
        char name[32];

        for (size_t i = 0; i < r->n_variable; i++) {
            int number = atoi(r->variable[i]->name + 1);

            ck_assert(!seen[number]);
            seen[number] = true;
        }
        from = r->next;
        kit_answer_free(a);
        snprintf(name, sizeof name, "w%d", 500 + declared++);
        kit_declare(&k, 1, name, 4, PS_SGD);
    } while (from != 0);
    for (int i = 0; i < 500; i++)
        ck_assert_msg(seen[i], "w%04d is missing", i);
}
END_TEST

/* The place of a page need not be of the job that is asked for, when what was there has gone. */
START_TEST(list_of_one_job_passes_over_others_a_page_at_a_time)
{
    enum { N = 3000 };
    uint64_t from = 1;
    int seen = 0, pages = 0;

    kit_join(&k, 1, kit_job("many", PSD__MODE__ASYNC, 1), 0);
    kit_join(&k, 2, kit_job("few", PSD__MODE__ASYNC, 1), 0);
    report_declare_many(1, N);
    kit_declare(&k, 2, "last", 4, PS_SGD);
    for (; from != 0; pages++) {
        struct kit_answer *a = report_ask_from(2, PSD__QUERY_KIND__VARIABLES, "few", from);

        seen += (int)a->msg.u.report->n_variable;
        from = a->msg.u.report->next;
        kit_answer_free(a);
    }
    ck_assert_int_eq(seen, 1);
    ck_assert_int_ge(pages, 2);
}
END_TEST

START_TEST(list_does_not_go_on_after_a_variable_that_is_not_there)
{
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare(&k, 1, "w/1", 4, PS_SGD);
    kit_declare(&k, 1, "v", 4, PS_SGD);
    report_send(1, PSD__QUERY_KIND__VARIABLES, "", "train/gone", 0);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "train/gone"));
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__VARIABLES, "", "train/w/1"); /* a name may have a '/' */
    ck_assert_uint_eq(a->msg.u.report->n_variable, 1);
    ck_assert_str_eq(a->msg.u.report->variable[0]->name, "v");
    kit_answer_free(a);
}
END_TEST

/* A page of variables with many blocks each ends early. */
START_TEST(page_looks_at_so_many_blocks)
{
    uint64_t from = 0, blocks = 0;
    size_t pages = 0;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    for (int i = 0; i < 8; i++) {
        char name[32];

        snprintf(name, sizeof name, "w%d", i);
        kit_declare(&k, 1, name, 700000, PS_SGD);
    }
    do {
        struct kit_answer *a = report_ask_from(1, PSD__QUERY_KIND__VARIABLES, "", from);

        ck_assert_uint_ge(a->msg.u.report->n_variable, 1);
        for (size_t i = 0; i < a->msg.u.report->n_variable; i++)
            blocks += a->msg.u.report->variable[i]->blocks;
        from = a->msg.u.report->next;
        pages++;
        kit_answer_free(a);
    } while (from != 0);
    ck_assert_uint_eq(blocks, k.shard->blocks);
    ck_assert_uint_ge(pages, blocks / (REPORT_LOOKS_MAX + 100));
}
END_TEST

START_TEST(stats_count_what_happened)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 2);
    float g[4] = {1, 1, 1, 1};
    uint64_t from = 0;
    struct kit_answer *a;
    const Psd__StatsReport *m;

    job->age->kind = PSD__AGE_KIND__AGE_CUTOFF;
    job->age->parameter = 2;
    kit_join(&k, 1, job, 0);
    kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t seq = 1; seq <= 4; seq++) /* ages 0, 1, 2, 3: the last is dropped */
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = 1, .gradient = g, .len = 4, .from_version = &from});
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = 1, .gradient = g, .len = 4});
    kit_push(&k, 1, &(struct kit_push){.seq = 5, .var = 1, .gradient = g, .len = 3});
    g[0] = NAN;
    kit_push(&k, 1, &(struct kit_push){.seq = 6, .var = 1, .gradient = g, .len = 4});
    kit_push(&k, 1, &(struct kit_push){.seq = 7, .var = 9, .gradient = g, .len = 4});
    kit_open(&k, 2);
    kit_bytes(&k, 2, 99, 1, "", 0, NULL, 0);
    a = report_ask(1, PSD__QUERY_KIND__STATS, "", "");
    m = a->msg.u.report->stats;
    ck_assert_uint_eq(m->pushes_applied, 3);
    ck_assert_uint_eq(m->pushed_bytes, 48);
    ck_assert_uint_eq(m->dropped_stale, 1);
    ck_assert_uint_eq(m->pushes_repeated, 1);
    ck_assert_uint_eq(m->refused_shape, 1);
    ck_assert_uint_eq(m->refused_nonfinite, 1);
    ck_assert_uint_eq(m->refused_other, 1);
    ck_assert_uint_eq(m->bad_peers, 1);
    ck_assert_uint_gt(m->commits, 0);
    ck_assert_uint_ge(m->turns, m->commits);
    ck_assert_uint_eq(m->age->count[0], 1);
    ck_assert_uint_eq(m->age->count[1], 1);
    ck_assert_uint_eq(m->age->count[2], 2); /* 2 and 3 */
    kit_answer_free(a);
}
END_TEST

/* The message's numbers cannot be made from the list: it has each counter, and no other. Each is a thousand of its own,
 * so that the turn of the question changes none beyond it. */
START_TEST(stats_report_has_every_counter)
{
    static const char *const members[] = {
#define X(member, ...) #member,
        STATS_REPORTED(X)
#undef X
    };
    size_t fields = 0;
    uint64_t n = 0;
    struct kit_answer *a;
    const uint8_t *m;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
#define X(member, ...) k.shard->stats.member = 1000 * ++n;
    STATS_REPORTED(X)
#undef X
    a = report_ask(1, PSD__QUERY_KIND__STATS, "", "");
    m = (const uint8_t *)a->msg.u.report->stats;
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field_by_name(&psd__stats_report__descriptor, members[i]);

        ck_assert_msg(field != NULL, "StatsReport has no %s", members[i]);
        ck_assert_uint_eq(*(const uint64_t *)(const void *)(m + field->offset) / 1000, i + 1);
    }
    for (unsigned i = 0; i < psd__stats_report__descriptor.n_fields; i++)
        fields += psd__stats_report__descriptor.fields[i].type == PROTOBUF_C_TYPE_UINT64;
    ck_assert_uint_eq(fields, ARRAY_LEN(members));
    kit_answer_free(a);
}
END_TEST

START_TEST(workers_are_listed_with_their_state)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 4);
    struct kit_answer *a;
    const Psd__Report *r;

    kit_hello(&k, 1, &(struct kit_hello){.job = job, .task = 0, .agent = "alpha:1", .lease_ms = 12345});
    kit_join(&k, 2, job, 1);
    kit_join(&k, 3, job, 3);
    kit_tick(&k, 1, 1, 6);
    kit_barrier(&k, 1, 2, "x");
    kit_close(&k, 2);
    kit_pass(&k, 5500);
    a = report_ask(1, PSD__QUERY_KIND__WORKERS, "", "");
    r = a->msg.u.report;
    ck_assert_uint_eq(r->n_worker, 3);
    ck_assert_uint_eq(r->worker[0]->task, 0);
    ck_assert_str_eq(r->worker[0]->agent, "alpha:1");
    ck_assert_uint_eq(r->worker[0]->lease_ms, 12345);
    ck_assert_uint_eq(r->worker[0]->clock, 6);
    ck_assert_uint_eq(r->worker[0]->last_seq, 1);
    ck_assert_uint_eq(r->worker[0]->unresolved, 1);
    ck_assert_uint_eq(r->worker[0]->silent_ms, 0);
    ck_assert(r->worker[0]->connected && !r->worker[0]->lapsed);
    ck_assert(!r->worker[1]->connected && r->worker[1]->lapsed);
    ck_assert_uint_eq(r->worker[2]->task, 3);
    ck_assert_uint_eq(r->worker[2]->silent_ms, 5500);
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__WORKERS, "", "train/1");
    ck_assert_uint_eq(a->msg.u.report->n_worker, 1);
    ck_assert_uint_eq(a->msg.u.report->worker[0]->task, 3);
    kit_answer_free(a);
}
END_TEST

START_TEST(workers_go_on_after_the_one_that_was_named)
{
    static const struct {
        const char *after;
        size_t n;
        const char *job; /* of the first */
        uint32_t task;
    } pages[] = {{"", 4, "a", 0},     {"a/0", 3, "a", 1}, {"a/1", 2, "a/1", 0}, {"a/1/0", 1, "a/1", 1},
                 {"a/1/1", 0, "", 0}, {"a", 0, "", 0},    {"b/0", 0, "", 0}};

    for (uint64_t conn = 1; conn <= 4; conn++)
        kit_join(&k, conn, kit_job(conn <= 2 ? "a" : "a/1", PSD__MODE__ASYNC, 2), (uint32_t)(conn + 1) % 2);
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct kit_answer *a = report_ask(1, PSD__QUERY_KIND__WORKERS, "", pages[i].after);
        const Psd__Report *r = a->msg.u.report;

        ck_assert_msg(r->n_worker == pages[i].n, "after '%s': %zu", pages[i].after, r->n_worker);
        if (r->n_worker > 0) {
            ck_assert_str_eq(r->worker[0]->job, pages[i].job);
            ck_assert_uint_eq(r->worker[0]->task, pages[i].task);
        }
        kit_answer_free(a);
    }
}
END_TEST

START_TEST(blocked_says_who_waits_for_whom)
{
    Psd__Job *job = kit_job("ssp", PSD__MODE__SSP, 3);
    struct kit_answer *a;
    const Psd__BlockedReport *m;
    float g[4] = {0};
    uint32_t var;

    job->bound = 1;
    for (uint32_t task = 0; task < 3; task++)
        kit_join(&k, task + 1, job, task);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_tick(&k, 1, 1, 5);
    kit_tick(&k, 2, 1, 4);
    kit_pull(&k, 1, var, 0, 5);
    kit_pass(&k, 321);
    a = report_ask(1, PSD__QUERY_KIND__BLOCKED, "", "");
    ck_assert_uint_eq(a->msg.u.report->n_blocked, 1);
    m = a->msg.u.report->blocked[0];
    ck_assert_str_eq(m->job, "ssp");
    ck_assert_str_eq(m->what, "pull");
    ck_assert_str_eq(m->variable, "w");
    ck_assert_uint_eq(m->task, 0);
    ck_assert_uint_eq(m->clock, 5);
    ck_assert_uint_eq(m->on_clock, 4);
    ck_assert_uint_eq(m->waited_ms, 321);
    ck_assert_uint_eq(m->n_on_task, 1); /* the one at 4 is far enough */
    ck_assert_uint_eq(m->on_task[0], 2);
    kit_answer_free(a);

    job = kit_job("sync", PSD__MODE__SYNC, 3);
    kit_join(&k, 11, job, 0);
    kit_join(&k, 12, job, 1);
    var = kit_declare(&k, 11, "v", 4, PS_SGD);
    kit_push(&k, 11, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4});
    kit_tick(&k, 11, 2, 1);
    kit_pull(&k, 11, var, 0, 1);
    kit_barrier(&k, 12, 1, "meet");
    a = report_ask(11, PSD__QUERY_KIND__BLOCKED, "sync", "");
    ck_assert_uint_eq(a->msg.u.report->n_blocked, 3);
    for (size_t i = 0; i < 2; i++) { /* the pull and the push wait for the same two */
        m = a->msg.u.report->blocked[i];
        ck_assert_str_eq(m->what, i == 0 ? "pull" : "push");
        ck_assert_str_eq(m->variable, "v");
        ck_assert_uint_eq(m->n_on_task, 2);
        ck_assert_uint_eq(m->on_task[0], 1);
        ck_assert_uint_eq(m->on_task[1], 2); /* it never joined */
        ck_assert_uint_eq(m->n_on_at, 2);
        ck_assert(m->on_at[0] > 0 && m->on_at[1] == 0);
    }
    m = a->msg.u.report->blocked[2];
    ck_assert_str_eq(m->what, "barrier meet");
    ck_assert_uint_eq(m->task, 1);
    ck_assert_uint_eq(m->n_on_task, 2);
    ck_assert_uint_eq(m->on_task[0], 0);
    ck_assert_uint_eq(m->on_task[1], 2);
    kit_answer_free(a);
}
END_TEST

START_TEST(report_always_fits_a_frame)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    struct kit_answer *a;
    uint32_t var;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_tick(&k, 1, 1, 5);
    for (uint32_t i = 0; i < SHARD_PARKED; i++)
        kit_pull(&k, 1, var, 0, 5);
    a = report_ask(1, PSD__QUERY_KIND__BLOCKED, "", "");
    ck_assert(a->msg.u.report->more);
    ck_assert_uint_gt(a->msg.u.report->n_blocked, 100);
    kit_answer_free(a);
}
END_TEST

START_TEST(jobs_are_told_as_they_are_now)
{
    Psd__AgePolicy cutoff = PSD__AGE_POLICY__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;
    Psd__Set set = PSD__SET__INIT;
    struct kit_answer *a;
    const Psd__JobReport *m;
    Psd__Job *job;

    kit_join(&k, 1, kit_job("first", PSD__MODE__ASYNC, 1), 0);
    job = kit_job("second", PSD__MODE__SSP, 2);
    job->bound = 1;
    kit_join(&k, 2, job, 0);
    kit_join(&k, 3, job, 1);
    kit_declare(&k, 2, "w", 4, PS_SGD);
    kit_ticked(&k, 2, 1, 2);
    kit_ticked(&k, 3, 1, 1);
    kit_ticked(&k, 2, 2, 3);
    kit_pull(&k, 2, 1, 0, 3);
    bound.clocks = 1;
    cutoff.kind = PSD__AGE_KIND__AGE_CUTOFF;
    cutoff.parameter = 5;
    set.job = (char *)"second";
    set.age = &cutoff;
    set.bound = &bound;
    kit_frame(&k, 3, MSG_SET, 5, &set.base, NULL, 0);
    a = report_ask(1, PSD__QUERY_KIND__JOBS, "", "");
    ck_assert_uint_eq(a->msg.u.report->n_job, 2);
    ck_assert_str_eq(a->msg.u.report->job[0]->name, "first");
    m = a->msg.u.report->job[1];
    ck_assert_str_eq(m->name, "second");
    ck_assert_str_eq(m->options, "ssp(bound 1), 2 workers, lapse shrink, age cutoff(5)");
    ck_assert_uint_eq(m->workers, 2);
    ck_assert_uint_eq(m->live, 2);
    ck_assert_uint_eq(m->lapsed, 0);
    ck_assert_uint_eq(m->slowest_clock, 1);
    ck_assert_uint_eq(m->fastest_clock, 3);
    ck_assert_uint_eq(m->variables, 1);
    ck_assert_uint_eq(m->first, 1);
    ck_assert_uint_eq(m->pulls_parked, 1);
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__JOBS, "", "first");
    ck_assert_uint_eq(a->msg.u.report->n_job, 1);
    ck_assert_str_eq(a->msg.u.report->job[0]->name, "second");
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__JOBS, "first", "");
    ck_assert_uint_eq(a->msg.u.report->n_job, 1);
    kit_answer_free(a);
    a = report_ask(1, PSD__QUERY_KIND__JOBS, "", "no such job");
    ck_assert_uint_eq(a->msg.u.report->n_job, 0);
    kit_answer_free(a);
}
END_TEST

START_TEST(definitions_are_as_declared_and_as_set_left_them)
{
    Psd__Set set = PSD__SET__INIT;
    Psd__Parameter rate = PSD__PARAMETER__INIT, *parameters[] = {&rate};
    Psd__Bound bound = PSD__BOUND__INIT;
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 1);
    const Psd__Report *r;
    struct kit_answer *a;

    job->bound = 4;
    kit_join(&k, 2, job, 0);
    kit_join(&k, 3, kit_job("other", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 2, "w", 4, PS_SGD);
    kit_declare(&k, 2, "a", 4, PS_SGD);
    kit_declare(&k, 3, "x", 4, PS_SGD);
    kit_ticked(&k, 2, 1, 7);
    rate.name = (char *)"learning_rate";
    rate.value = 0.125;
    bound.clocks = 9;
    set.job = (char *)"train";
    set.variables = (char *)"w";
    set.parameter = parameters;
    set.n_parameter = 1;
    set.bound = &bound;
    kit_frame(&k, 2, MSG_SET, 5, &set.base, NULL, 0);
    a = report_ask(2, PSD__QUERY_KIND__DEFINITIONS, "train", "");
    r = a->msg.u.report;
    ck_assert_uint_eq(r->job_definition->declared->bound, 4);
    ck_assert_uint_eq(r->job_definition->now->bound, 9);
    ck_assert_uint_eq(r->job_definition->live, 1);
    ck_assert_uint_eq(r->job_definition->slowest_clock, 7);
    ck_assert_uint_eq(r->n_definition, 2);
    ck_assert_str_eq(r->definition[1]->declared->name, "a");
    ck_assert_double_ne(r->definition[0]->declared->optimizer->learning_rate, 0.125);
    ck_assert_double_eq(r->definition[0]->now->optimizer->learning_rate, 0.125);
    ck_assert_uint_eq(r->definition[0]->now->dims[0], 4);
    kit_answer_free(a);
    a = report_ask(2, PSD__QUERY_KIND__DEFINITIONS, "train", "train/w");
    ck_assert_uint_eq(a->msg.u.report->n_definition, 1);
    kit_answer_free(a);
    a = report_ask(2, PSD__QUERY_KIND__DEFINITIONS, "nobody", "");
    ck_assert_ptr_null(a->msg.u.report->job_definition);
    ck_assert_uint_eq(a->msg.u.report->n_definition, 0);
    kit_answer_free(a);
}
END_TEST

/* More jobs than a report holds by its bytes: pages, each going on where the last one ended. */
START_TEST(all_jobs_come_in_pages)
{
    enum { JOBS = SHARD_JOBS };
    char name[WIRE_NAME_MAX + 1], after[WIRE_NAME_MAX + 1] = "";
    unsigned seen = 0, pages = 0;
    bool more = true;

    for (int i = 0; i < JOBS; i++) {
        snprintf(name, sizeof name, "%0*d", WIRE_NAME_MAX, i);
        kit_join(&k, 2, kit_job(name, PSD__MODE__ASYNC, 1), 0);
        kit_close(&k, 2);
    }
    kit_observe(&k, 1);
    for (; more; pages++) {
        struct kit_answer *a = report_ask(1, PSD__QUERY_KIND__JOBS, "", after);
        const Psd__Report *r = a->msg.u.report;

        ck_assert_uint_gt(r->n_job, 0);
        for (size_t i = 0; i < r->n_job; i++)
            ck_assert_int_eq(atoi(r->job[i]->name), (int)seen++);
        strcpy(after, r->job[r->n_job - 1]->name);
        more = r->more;
        kit_answer_free(a);
    }
    ck_assert_uint_eq(seen, JOBS);
    ck_assert_uint_gt(pages, 1);
}
END_TEST

START_TEST(learning_rate_is_that_of_the_next_update)
{
    struct ps_optimizer sgd = kit_optimizer(PS_SGD);
    struct kit_answer *a;
    uint32_t var;

    sgd.schedule = (struct ps_schedule){.kind = PS_SCHEDULE_STEP, .steps = 1, .factor = 0.5};
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare_with(&k, 1, "w", 4, &sgd);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        kit_push_four(&k, 1, seq, 0, var, 1);
        kit_ack(&k, 1, seq, PS_OK);
    }
    a = report_ask(1, PSD__QUERY_KIND__VARIABLES, "", "");
    ck_assert_double_eq(a->msg.u.report->variable[0]->learning_rate, 0.25);
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("report");
    TCase *tc = tcase_create("report");

    tcase_add_checked_fixture(tc, report_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, status_says_what_the_shard_is_and_holds);
    tcase_add_test(tc, variables_are_counted_one_by_one);
    tcase_add_test(tc, each_gradient_of_a_step_counts_as_a_push);
    tcase_add_test(tc, many_variables_come_in_pages);
    tcase_add_test(tc, list_of_all_variables_looks_at_each_once);
    tcase_add_test(tc, what_is_declared_meanwhile_takes_nothing_from_a_list);
    tcase_add_test(tc, list_of_one_job_passes_over_others_a_page_at_a_time);
    tcase_add_test(tc, list_does_not_go_on_after_a_variable_that_is_not_there);
    tcase_add_test(tc, page_looks_at_so_many_blocks);
    tcase_add_test(tc, stats_count_what_happened);
    tcase_add_test(tc, stats_report_has_every_counter);
    tcase_add_test(tc, workers_are_listed_with_their_state);
    tcase_add_test(tc, workers_go_on_after_the_one_that_was_named);
    tcase_add_test(tc, blocked_says_who_waits_for_whom);
    tcase_add_test(tc, report_always_fits_a_frame);
    tcase_add_test(tc, jobs_are_told_as_they_are_now);
    tcase_add_test(tc, definitions_are_as_declared_and_as_set_left_them);
    tcase_add_test(tc, all_jobs_come_in_pages);
    tcase_add_test(tc, learning_rate_is_that_of_the_next_update);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
