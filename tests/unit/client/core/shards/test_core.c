/* The client core's sessions: joining, being refused, rejoining, clocks, time, and its events. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;

static void
core_setup(void)
{
    harness_init(&h, 2, PS_ASYNC);
}

static void
setup_joined(void)
{
    harness_start(&h, 2, PS_ASYNC);
}

static void
core_teardown(void)
{
    harness_stop(&h);
}

static struct core_op *
push_one(struct core_var *v)
{
    static float grad[64] = {1};

    return start_push(&h, v, grad);
}

/* ---- Joining ---- */

START_TEST(hello_names_shard_job_and_incarnation)
{
    struct wire_msg m;

    harness_perform(&h);
    m = core_expect(&h, 1, MSG_HELLO);
    ck_assert_str_eq(m.u.hello->cluster, "test");
    ck_assert_uint_eq(m.u.hello->shard, 1);
    ck_assert_uint_eq(m.u.hello->shards, 2);
    ck_assert_str_eq(m.u.hello->job->name, "job");
    ck_assert_uint_eq(m.u.hello->job->workers, 2);
    ck_assert_uint_eq(m.u.hello->job->quorum, 2);
    ck_assert_uint_eq(m.u.hello->incarnation, 77);
    ck_assert(!m.u.hello->resume);
}
END_TEST

START_TEST(joined_when_every_shard_has_welcomed)
{
    harness_perform(&h);
    tell_welcome(&h, 0, (struct welcome){0});
    ck_assert(!core_joined(h.core));
    tell_welcome(&h, 1, (struct welcome){0});
    ck_assert(core_joined(h.core));
}
END_TEST

START_TEST(starts_are_refused_before_joined)
{
    struct core_op *op;
    struct ps_error e;

    ck_assert_int_eq(core_tick(h.core, &op, &e), PS_ERR_CLOSED);
}
END_TEST

START_TEST(clock_is_the_highest_welcome_and_lower_shards_are_ticked_up)
{
    struct wire_msg m;

    harness_perform(&h);
    core_expect(&h, 0, MSG_HELLO);
    core_expect(&h, 1, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.clock = 3});
    tell_welcome(&h, 1, (struct welcome){.clock = 5, .slowest = 5});
    ck_assert_uint_eq(core_clock(h.core), 5);
    ck_assert_uint_eq(core_slowest_clock(h.core), 5);
    m = core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(m.u.tick->clock, 5);
    ck_assert_uint_eq(m.u.tick->seq, 1);
    expect_nothing(&h, 1);
    ck_assert(!core_quiet(h.core));
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert(core_quiet(h.core));
}
END_TEST

START_TEST(taken_task_is_tried_again_and_named)
{
    struct ps_error e;

    harness_perform(&h);
    tell_welcome(&h, 0, (struct welcome){0});
    tell_error(&h, 1, REQUEST_ID_HELLO, PS_ERR_TASK_TAKEN, "held by elsewhere:9");
    ck_assert_int_eq(core_join_error(h.core, 20, &e), PS_ERR_TASK_TAKEN);
    ck_assert_ptr_nonnull(strstr(e.text, "elsewhere:9"));
    ck_assert_ptr_nonnull(strstr(e.text, "127.0.0.1:4001"));
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    harness_pass(&h, 500);
    while (h.link[1].up.n > 1)
        core_expect(&h, 1, MSG_HELLO);
    ck_assert(!core_expect(&h, 1, MSG_HELLO).u.hello->resume);
    tell_welcome(&h, 1, (struct welcome){0});
    ck_assert(core_joined(h.core));
}
END_TEST

static const enum ps_err finals[] = {PS_ERR_CLUSTER, PS_ERR_MISMATCH,     PS_ERR_VERSION,  PS_ERR_FENCED,
                                     PS_ERR_INVALID, PS_ERR_LEASE_LAPSED, PS_ERR_PROTOCOL, PS_ERR_DROPPED};

START_TEST(final_refusal_ends_the_join)
{
    struct ps_error e;

    harness_perform(&h);
    tell_error(&h, 1, REQUEST_ID_HELLO, finals[_i], "because");
    ck_assert_int_eq(core_fatal(h.core, &e), finals[_i]);
    ck_assert_str_eq(e.text, "because");
    ck_assert_str_eq(e.peer, "shard 1 at 127.0.0.1:4001");
    ck_assert(!h.link[0].open && !h.link[1].open);
    ck_assert_uint_eq(core_next_time(h.core), UINT64_MAX);
}
END_TEST

START_TEST(welcome_of_another_cluster_is_final)
{
    Psd__Welcome w = PSD__WELCOME__INIT;

    harness_perform(&h);
    w.cluster = "other";
    w.shard = 0;
    w.shards = 2;
    to_client(&h, 0, MSG_WELCOME, REQUEST_ID_HELLO, &w.base, NULL, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_CLUSTER);
}
END_TEST

START_TEST(unreachable_shard_is_tried_with_growing_pauses)
{
    struct ps_error why, e;
    uint64_t before, pause, last = 0, i;

    h.no_connect = true;
    harness_perform(&h);
    ps_fail(&why, PS_ERR_UNREACHABLE, "cannot connect: refused");
    for (i = 0; i < 12; i++) {
        ck_assert(h.link[0].open);
        h.link[0].open = false;
        core_disconnected(h.core, 0, &why, h.now);
        before = h.now;
        pause = core_next_time(h.core) - before;
        ck_assert_uint_ge(pause, MIN(SHARD_LINK_BACKOFF_MIN << i, SHARD_LINK_BACKOFF_MAX) / 2);
        ck_assert_uint_le(pause, MIN(SHARD_LINK_BACKOFF_MIN << i, SHARD_LINK_BACKOFF_MAX));
        last = pause;
        h.now = core_next_time(h.core);
        core_time(h.core, h.now);
        harness_perform(&h);
    }
    ck_assert_uint_ge(last, SHARD_LINK_BACKOFF_MAX / 2);
    ck_assert_int_eq(core_join_error(h.core, 9000, &e), PS_ERR_UNREACHABLE);
    ck_assert_str_eq(e.text, "waited 9000 ms for shard 0 at 127.0.0.1:4000: cannot connect: refused");
}
END_TEST

START_TEST(silent_connect_and_silent_hello_are_given_up)
{
    struct ps_error e;

    harness_perform(&h);
    ck_assert_uint_eq(h.connects, 2);
    harness_pass(&h, SHARD_LINK_GREET_MS);
    ck_assert_uint_eq(h.disconnects, 2);
    ck_assert_int_eq(core_join_error(h.core, SHARD_LINK_GREET_MS, &e), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(e.text, "no answer to hello"));
    harness_pass(&h, 500);
    ck_assert_uint_ge(h.connects, 4);
}
END_TEST

START_TEST(port_that_speaks_something_else_is_final)
{
    struct ps_error why;

    harness_perform(&h);
    ps_fail(&why, PS_ERR_PROTOCOL, "this is HTTP");
    harness_drop_connection(&h, 0);
    core_disconnected(h.core, 0, &why, h.now);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

/* A connection's end, a refusal and an error beside them are judged alike. */
START_TEST(what_is_final_ends_the_client_with_its_connection)
{
    bool final = shard_link_error_final((enum ps_err)_i);
    struct ps_error why;

    harness_perform(&h);
    ps_fail(&why, (enum ps_err)_i, "so it ended");
    harness_drop_connection(&h, 0);
    core_disconnected(h.core, 0, &why, h.now);
    ck_assert_int_eq(core_fatal(h.core, NULL), final ? _i : PS_OK);
    ck_assert(final || core_next_time(h.core) < UINT64_MAX); /* it will be tried again */
}
END_TEST

START_TEST(other_message_before_welcome_is_final)
{
    Psd__Ack a = PSD__ACK__INIT;
    uint64_t seq = 1;

    a.n_seq = 1;
    a.seq = &seq;
    harness_perform(&h);
    to_client(&h, 0, MSG_ACK, 0, &a.base, NULL, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

/* ---- Joined ---- */

START_TEST(round_is_the_highest_welcome_and_lower_shards_are_told_first)
{
    struct core_op *op;
    struct wire_msg m;
    struct ps_error e;

    harness_perform(&h);
    core_expect(&h, 0, MSG_HELLO);
    core_expect(&h, 1, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.clock = 5, .round = 1});
    tell_welcome(&h, 1, (struct welcome){.clock = 5, .round = 2});
    m = core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(m.u.tick->seq, 1);
    ck_assert_uint_eq(m.u.tick->clock, 5);
    ck_assert_uint_eq(m.u.tick->round, 2);
    expect_nothing(&h, 1);
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert_int_eq(core_tick(h.core, &op, &e), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->round, 2);
    ck_assert_uint_eq(core_expect(&h, 1, MSG_TICK).u.tick->round, 2);
}
END_TEST

START_TEST(tick_goes_to_every_shard_and_raises_the_clock_at_once)
{
    struct core_op *op = start_tick(&h);

    ck_assert_uint_eq(core_clock(h.core), 1);
    ck_assert(!core_op_done(op));
    ck_assert_uint_eq(core_expect(&h, 0, MSG_TICK).u.tick->clock, 1);
    ck_assert_uint_eq(core_expect(&h, 1, MSG_TICK).u.tick->clock, 1);
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert(!core_op_done(op));
    tell_ack(&h, 1, 1, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(barrier_goes_to_one_shard)
{
    struct core_op *op;
    uint32_t shard;

    ck_assert_int_eq(core_barrier(h.core, "epoch", &op, NULL), PS_OK);
    harness_perform(&h);
    ck_assert_uint_eq(h.link[0].up.n + h.link[1].up.n, 1);
    shard = h.link[0].up.n == 1 ? 0 : 1;
    ck_assert_str_eq(core_expect(&h, shard, MSG_BARRIER).u.barrier->name, "epoch");
    tell_ack(&h, shard, 1, PS_ERR_STEP_FAILED);
    end_op(&h, op, PS_ERR_STEP_FAILED);
}
END_TEST

START_TEST(barrier_with_a_place_goes_to_shard_0)
{
    const struct ps_cursor at = {2, 7};
    const Psd__Place *place;
    struct core_op *op;

    ck_assert_int_eq(core_barrier_at(h.core, "epoch", &at, 1, &op, NULL), PS_OK);
    harness_perform(&h);
    place = core_expect(&h, 0, MSG_BARRIER).u.barrier->place;
    ck_assert(place->at->epoch == 2 && place->at->position == 7 && place->again == 1);
    tell_ack(&h, 0, 1, PS_OK);
    end_op(&h, op, PS_OK);
    ck_assert_int_eq(core_barrier(h.core, "z", &op, NULL), PS_OK); /* the same operation again, without one */
    harness_perform(&h);
    for (uint32_t i = 0; i < 2; i++)
        if (h.link[i].up.n > 0)
            ck_assert_ptr_null(core_expect(&h, i, MSG_BARRIER).u.barrier->place);
    core_op_free(h.core, op);
}
END_TEST

START_TEST(ack_sentence_is_the_shards)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    struct core_op *op = push_one(v);
    Psd__Ack a = PSD__ACK__INIT;
    Psd__Error said = PSD__ERROR__INIT, *list[1] = {&said};
    struct ps_error e;
    uint64_t seq = 1;
    uint32_t code = PS_ERR_NONFINITE;

    said.code = code;
    said.seq = 1;
    said.text = "element 3 of 'w' is NaN";
    a.n_seq = a.n_code = a.n_error = 1;
    a.seq = &seq;
    a.code = &code;
    a.error = list;
    to_client(&h, shard, MSG_ACK, 0, &a.base, NULL, 0);
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_NONFINITE);
    ck_assert_str_eq(e.text, "element 3 of 'w' is NaN");
    ck_assert_uint_eq(core_stats(h.core)->refused, 1);
    core_op_free(h.core, op);
}
END_TEST

START_TEST(codes_per_block_are_counted)
{
    struct core_var *v = harness_var(&h, "w", 2100); /* three small blocks */
    static float grad[2100];
    struct core_op *op = start_push(&h, v, grad);
    Psd__Ack a = PSD__ACK__INIT;
    Psd__AckBlocks b = PSD__ACK_BLOCKS__INIT, *list[1] = {&b};
    uint32_t codes[3] = {PS_OK, PS_ERR_STALE, PS_OK}, worst = PS_ERR_STALE, i;
    uint64_t seq = 1;

    ck_assert_uint_eq(core_var_blocks(v), 3);
    for (i = 0; i < 2; i++) {
        b.seq = 1;
        b.n_code = v->shard[i].blocks;
        b.code = codes;
        a.n_seq = a.n_code = a.n_blocks = 1;
        a.seq = &seq;
        a.code = &worst;
        a.blocks = list;
        if (b.n_code == 2)
            to_client(&h, i, MSG_ACK, 0, &a.base, NULL, 0);
        else
            tell_ack(&h, i, 1, PS_OK);
    }
    end_op(&h, op, PS_ERR_STALE);
    ck_assert_uint_eq(core_stats(h.core)->dropped_stale, 1);
    ck_assert_uint_eq(core_stats(h.core)->pushes, 1);
}
END_TEST

/* In whichever order the shards answer. */
START_TEST(durable_push_says_so_and_what_the_disk_refused_was_applied)
{
    static const enum ps_err codes[] = {PS_OK, PS_ERR_UNSUPPORTED, PS_ERR_NOT_DURABLE, PS_ERR_LIMIT};
    struct ps_push_options options = {.flags = PS_PUSH_DURABLE | PS_PUSH_COPY};
    struct core_var *v = harness_var(&h, "w", 8);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    const float grad[8] = {1}, *grads[1] = {grad};
    struct core_op *op;
    struct ps_error e;

    for (uint64_t i = 0; i < ARRAY_LEN(codes); i++) {
        ck_assert_int_eq(core_push(h.core, 1, &v, grads, NULL, &options, &op, &e), PS_OK);
        harness_perform(&h);
        ck_assert(core_expect(&h, shard, MSG_PUSH).u.push->durable);
        ck_assert_int_eq(core_op_waiting(h.core, op, 7, &e), PS_ERR_TIMEOUT);
        ck_assert_ptr_nonnull(strstr(e.text, "durable push of 'w'"));
        tell_ack(&h, shard, i + 1, codes[i]);
        end_op(&h, op, codes[i]);
    }
    ck_assert_uint_eq(core_stats(h.core)->refused, 2);
    op = start_push(&h, v, grad);
    ck_assert(!core_expect(&h, shard, MSG_PUSH).u.push->durable);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(a_drop_never_hides_an_error)
{
    struct core_var *v = harness_var(&h, "w", 2100); /* blocks on both shards */
    static float grad[2100];
    struct core_op *op = start_push(&h, v, grad);
    uint32_t first = (uint32_t)_i;

    tell_ack(&h, first, 1, _i == 0 ? PS_ERR_STALE : PS_ERR_NONFINITE);
    tell_ack(&h, 1 - first, 1, _i == 0 ? PS_ERR_NONFINITE : PS_ERR_STALE);
    end_op(&h, op, PS_ERR_NONFINITE);
    op = start_push(&h, v, grad);
    tell_ack(&h, first, 2, PS_ERR_LATE);
    tell_ack(&h, 1 - first, 2, PS_ERR_STALE);
    end_op(&h, op, PS_ERR_LATE);
}
END_TEST

START_TEST(lapsed_lease_ends_all_operations)
{
    struct core_var *v = harness_var(&h, "w", 10);
    struct core_op *push = push_one(v), *tick = start_tick(&h), *op;
    struct ps_error e;

    tell_error(&h, 1, 0, PS_ERR_LEASE_LAPSED, "silent for too long");
    ck_assert_int_eq(core_op_result(push, &e), PS_ERR_LEASE_LAPSED);
    ck_assert_int_eq(core_op_result(tick, &e), PS_ERR_LEASE_LAPSED);
    ck_assert_int_eq(core_tick(h.core, &op, &e), PS_ERR_LEASE_LAPSED);
    ck_assert_str_eq(e.text, "silent for too long");
    ck_assert_str_eq(h.last_event.text, ""); /* the calls report it, on_event does not repeat it */
    core_op_free(h.core, push);
    core_op_free(h.core, tick);
}
END_TEST

START_TEST(rejoin_is_a_new_incarnation_at_the_given_clock)
{
    struct core_var *v = harness_var(&h, "w", 10);
    struct core_op *op;
    uint32_t i;

    tell_error(&h, 1, 0, PS_ERR_LEASE_LAPSED, "silent for too long");
    core_rejoin(h.core, 78, h.now);
    ck_assert(!core_joined(h.core));
    harness_perform(&h);
    for (i = 0; i < 2; i++) {
        struct wire_msg m = core_expect(&h, i, MSG_HELLO);

        ck_assert(!m.u.hello->resume);
        ck_assert_uint_eq(m.u.hello->incarnation, 78);
        tell_welcome(&h, i, (struct welcome){.clock = 9});
    }
    ck_assert(core_joined(h.core));
    ck_assert_uint_eq(core_clock(h.core), 9);
    ck_assert_uint_eq(core_stats(h.core)->reconnects, 2);
    op = push_one(v);
    i = v->shard[0].blocks > 0 ? 0 : 1;
    ck_assert_uint_eq(core_expect(&h, i, MSG_PUSH).u.push->seq, 1);
    tell_ack(&h, i, 1, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

/* The variable of before is another one now, under another id; what was seen of it says nothing of this one. */
START_TEST(a_worker_whose_job_was_dropped_is_told_and_may_begin_anew)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {10}};
    struct core_var *v = harness_var(&h, "w", 10), *again;
    struct core_op *op = push_one(v);
    Psd__Declared declared = PSD__DECLARED__INIT;
    uint32_t at = v->shard[0].blocks > 0 ? 0 : 1;
    struct wire_msg m;
    struct ps_error e;

    v->seen[0] = 8;
    core_expect(&h, at, MSG_PUSH);
    tell_error(&h, at, 0, PS_ERR_DROPPED, "job 'job' was dropped by psctl");
    end_op(&h, op, PS_ERR_DROPPED);
    ck_assert_int_eq(core_fatal(h.core, &e), PS_ERR_DROPPED);
    ck_assert_str_eq(e.text, "job 'job' was dropped by psctl");
    ck_assert(!h.link[0].open && !h.link[1].open);
    core_rejoin(h.core, 78, h.now);
    harness_perform(&h);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert(!core_expect(&h, i, MSG_HELLO).u.hello->resume);
        tell_welcome(&h, i, (struct welcome){0});
    }
    op = push_one(v); /* it was not declared again: the shard says so */
    core_expect(&h, at, MSG_PUSH);
    tell_ack(&h, at, 1, PS_ERR_DROPPED);
    end_op(&h, op, PS_ERR_DROPPED);
    spec.optimizer = v->spec.optimizer;
    spec.init = v->spec.init;
    ck_assert_int_eq(core_declare(h.core, &spec, &again, &op, &e), PS_OK);
    ck_assert_ptr_eq(again, v);
    harness_perform(&h);
    m = core_expect(&h, at, MSG_DECLARE);
    declared.var = v->shard[at].id + 5;
    to_client(&h, at, MSG_DECLARED, m.request, &declared.base, NULL, 0);
    end_op(&h, op, PS_OK);
    ck_assert_uint_eq(v->seen[0], 0);
    op = push_one(v);
    m = core_expect(&h, at, MSG_PUSH);
    ck_assert_uint_eq(m.u.push->var[0], declared.var);
    tell_ack(&h, at, 2, PS_OK);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(a_hello_again_says_which_life_of_the_data_it_knew)
{
    struct wire_msg m;

    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    m = core_expect(&h, 0, MSG_HELLO);
    ck_assert(m.u.hello->resume && m.u.hello->boot == h.core->links[0].boot && m.u.hello->boot != 0);
    ck_assert_uint_eq(m.u.hello->codes, PS_ERR_COUNT - 1);
}
END_TEST

START_TEST(events_are_told)
{
    Psd__Event ev = PSD__EVENT__INIT;

    ev.kind = PSD__EVENT_KIND__EVENT_LEASE_LAPSED;
    ev.task = 3;
    to_client(&h, 0, MSG_EVENT, 0, &ev.base, NULL, 0);
    ck_assert_int_eq(h.last_event.code, PS_ERR_LEASE_LAPSED);
    ck_assert_str_eq(h.last_event.text, "worker 3 lost its lease");
    ev.text = "worker 3 of job 'job' (it) lapsed at clock 7";
    to_client(&h, 0, MSG_EVENT, 0, &ev.base, NULL, 0);
    ck_assert_str_eq(h.last_event.text, ev.text); /* not twice */
    ev.kind = PSD__EVENT_KIND__EVENT_DRAINING;
    ev.text = "asked by TERM";
    to_client(&h, 0, MSG_EVENT, 0, &ev.base, NULL, 0);
    ck_assert_int_eq(h.last_event.code, PS_ERR_DRAINING);
    harness_cut(&h, 1);
    ck_assert_int_eq(h.last_event.code, PS_ERR_CLOSED);
    harness_run(&h);
    ck_assert_int_eq(h.last_event.code, PS_OK);
    ck_assert_str_eq(h.last_event.text, "connected again");
}
END_TEST

START_TEST(draining_answer_waits_for_the_next_life)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    float out[10];
    struct core_op *op = start_pull(&h, v, out);
    struct wire_msg m = core_expect(&h, shard, MSG_PULL);

    tell_error(&h, shard, m.request, PS_ERR_DRAINING, "stopping");
    ck_assert(!core_op_done(op));
    ck_assert(!h.link[shard].connected);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

/* ---- Time ---- */

START_TEST(idle_worker_pings_before_its_lease_ends)
{
    core_free(h.core);
    h.core = NULL;
    harness_stop(&h);
    harness_start(&h, 1, PS_ASYNC);
    h.core->config.lease_ms = 3000;
    ck_assert_uint_le(core_next_time(h.core), h.now + 1000);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_PING);
}
END_TEST

START_TEST(silent_shard_is_probed_then_left)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    float out[10];
    struct core_op *op = start_pull(&h, v, out);

    core_expect(&h, shard, MSG_PULL);
    harness_pass(&h, SHARD_LINK_PROBE_MS - 500);
    expect_nothing(&h, shard);
    harness_pass(&h, 500);
    core_expect(&h, shard, MSG_PING);
    harness_pass(&h, SHARD_LINK_DEAD_MS - SHARD_LINK_PROBE_MS);
    ck_assert_uint_eq(h.disconnects, 1);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(caller_that_computes_for_minutes_keeps_its_connections)
{
    struct core_var *v = harness_var(&h, "w", 10);
    float out[10];
    struct core_op *op = start_pull(&h, v, out);

    h.now += 10 * 60 * 1000;
    core_time(h.core, h.now);
    harness_perform(&h);
    ck_assert_uint_eq(h.disconnects, 0);
    harness_run(&h);
    end_op(&h, op, PS_OK);
}
END_TEST

/* ---- Sentences ---- */

START_TEST(timeout_names_shard_operation_and_reason)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    char want[200];
    float out[10];
    struct core_op *op = start_pull(&h, v, out);
    struct ps_error e, why;

    ck_assert_int_eq(core_op_waiting(h.core, op, 5000, &e), PS_ERR_TIMEOUT);
    snprintf(want, sizeof(want), "waited 5000 ms for shard %u at 127.0.0.1:400%u: pull of 'w' at clock 0", shard,
             shard);
    ck_assert_str_eq(e.text, want);
    ps_fail(&why, PS_ERR_CLOSED, "the peer closed the connection");
    harness_drop_connection(&h, shard);
    core_disconnected(h.core, shard, &why, h.now);
    core_op_waiting(h.core, op, 5000, &e);
    ck_assert_ptr_nonnull(strstr(e.text, "; not connected: the peer closed the connection"));
    core_op_free(h.core, op);
}
END_TEST

START_TEST(timeout_says_who_holds_it_back)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    uint32_t on[2] = {1, 4};
    float out[10];
    struct core_op *op = start_pull(&h, v, out);
    Psd__Report r = PSD__REPORT__INIT;
    Psd__BlockedReport b = PSD__BLOCKED_REPORT__INIT, *list[1] = {&b};
    struct wire_msg m;
    struct ps_error e;

    core_expect(&h, shard, MSG_PULL);
    core_op_query_delay(h.core, op);
    harness_perform(&h);
    m = core_expect(&h, shard, MSG_QUERY);
    ck_assert_int_eq(m.u.query->kind, PSD__QUERY_KIND__BLOCKED);
    b.job = "job";
    b.task = 0;
    b.what = "pull";
    b.n_on_task = 2;
    b.on_task = on;
    b.on_clock = 6;
    r.kind = PSD__QUERY_KIND__BLOCKED;
    r.n_blocked = 1;
    r.blocked = list;
    to_client(&h, shard, MSG_REPORT, m.request, &r.base, NULL, 0);
    core_op_waiting(h.core, op, 100, &e);
    ck_assert_ptr_nonnull(strstr(e.text, "; it waits for worker 1, worker 4 until clock 6"));
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(timeout_says_where_they_stand)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    uint32_t on[3] = {1, 4, 5};
    uint64_t at[3] = {4, 0, 6};
    float out[10];
    struct core_op *op = start_pull(&h, v, out);
    Psd__Report r = PSD__REPORT__INIT;
    Psd__BlockedReport own = PSD__BLOCKED_REPORT__INIT, its = own, *list[2] = {&own, &its};
    struct ps_error e;

    core_expect(&h, shard, MSG_PULL);
    core_op_query_delay(h.core, op);
    harness_perform(&h);
    own.job = its.job = "job";
    own.what = "pull";
    own.n_on_task = own.n_on_at = 3;
    own.on_task = on;
    own.on_at = at;
    own.on_clock = 6;
    its.task = 1;
    its.what = "barrier epoch";
    r.kind = PSD__QUERY_KIND__BLOCKED;
    r.n_blocked = 2;
    r.blocked = list;
    to_client(&h, shard, MSG_REPORT, core_expect(&h, shard, MSG_QUERY).request, &r.base, NULL, 0);
    core_op_waiting(h.core, op, 100, &e);
    ck_assert_ptr_nonnull(strstr(e.text, "; it waits for worker 1 (at clock 3, in barrier 'epoch'), worker 4 (not "
                                         "joined), worker 5 (at clock 5) until clock 6"));
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

START_TEST(query_answer_is_the_reports_bytes)
{
    Psd__Report r = PSD__REPORT__INIT, *back;
    Psd__StatusReport s = PSD__STATUS_REPORT__INIT;
    struct core_op *op;
    struct wire_msg m;

    ck_assert_int_eq(core_query(h.core, 1, PS_QUERY_STATUS, NULL, NULL, &op, NULL), PS_OK);
    harness_perform(&h);
    m = core_expect(&h, 1, MSG_QUERY);
    s.cluster = "test";
    s.shard = 1;
    s.shards = 2;
    s.variables = 42;
    s.version = "0";
    s.live_dir = "/";
    r.status = &s;
    to_client(&h, 1, MSG_REPORT, m.request, &r.base, NULL, 0);
    ck_assert_int_eq(core_op_result(op, NULL), PS_OK);
    back = psd__report__unpack(NULL, core_op_answer(op).len, core_op_answer(op).data);
    ck_assert_uint_eq(back->status->variables, 42);
    psd__report__free_unpacked(back, NULL);
    core_op_free(h.core, op);
}
END_TEST

START_TEST(a_zeroed_optimizer_is_refused)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {10}};
    struct core_var *v;
    struct core_op *op;
    struct ps_error e;

    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "variable 'w': the optimizer's learning_rate is 0, so it would never change; a zeroed "
                             "struct is no optimizer, ps_optimizer_by_name() fills one in");
}
END_TEST

START_TEST(a_variable_that_could_have_no_checkpoint_is_refused)
{
    struct ps_var_spec spec = {.name = "__metadata__", .rank = 1, .dims = {10}, .optimizer = {.learning_rate = 0.1}};
    struct core_var *v;
    struct core_op *op;
    struct ps_error e;

    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text,
                     "a variable cannot have the name '__metadata__', which safetensors files use for something "
                     "else: it could have no checkpoint");
}
END_TEST

START_TEST(declaration_that_a_shard_refuses_may_be_made_anew)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {10}, .optimizer = {.learning_rate = 0.1}};
    struct core_var *v, *again;
    struct core_op *op;
    struct wire_msg m;
    struct ps_error e;
    uint32_t shard;

    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, &e), PS_OK);
    harness_perform(&h);
    shard = v->shard[0].blocks > 0 ? 0 : 1;
    m = core_expect(&h, shard, MSG_DECLARE);
    tell_error(&h, shard, m.request, PS_ERR_MISMATCH, "declared as something else");
    end_op(&h, op, PS_ERR_MISMATCH);
    spec.dims[0] = 20;
    ck_assert_int_eq(core_declare(h.core, &spec, &again, &op, &e), PS_OK);
    ck_assert_ptr_eq(v, again);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    ck_assert_uint_eq(core_var_elements(v), 20);
    spec.dims[0] = 30;
    ck_assert_int_eq(core_declare(h.core, &spec, &again, &op, &e), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(e.text, "[20]"));
    ck_assert_ptr_nonnull(strstr(e.text, "[30]"));
}
END_TEST

START_TEST(goodbye_is_said_and_connections_finish)
{
    core_goodbye(h.core);
    harness_perform(&h);
    ck_assert(core_expect(&h, 0, MSG_GOODBYE).u.goodbye->finished);
    ck_assert(core_expect(&h, 1, MSG_GOODBYE).u.goodbye->finished);
    ck_assert_uint_eq(h.finishes, 2);
}
END_TEST

/* ---- Lies ---- */

START_TEST(ack_of_what_was_not_sent_is_final)
{
    tell_ack(&h, 0, 1, PS_OK);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(data_that_was_not_asked_for_is_final)
{
    Psd__Data d = PSD__DATA__INIT;

    h.by_meta = _i == 1;
    to_client(&h, 0, MSG_DATA, 1234567, &d.base, "1234", _i == 1 ? 4 : 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(data_of_another_length_is_final)
{
    struct core_var *v = harness_var(&h, "w", 10);
    uint32_t shard = v->shard[0].blocks > 0 ? 0 : 1;
    float out[10] = {7}, sent[9] = {1};
    struct core_op *op = start_pull(&h, v, out);
    struct wire_msg m = core_expect(&h, shard, MSG_PULL);
    Psd__Data d = PSD__DATA__INIT;
    uint64_t version = 1;

    h.by_meta = _i == 1;
    d.n_version = 1;
    d.version = &version;
    to_client(&h, shard, MSG_DATA, m.request, &d.base, sent, sizeof(sent));
    ck_assert_int_eq(core_op_result(op, NULL), PS_ERR_PROTOCOL);
    ck_assert_float_eq(out[0], 7);
    core_op_free(h.core, op);
}
END_TEST

START_TEST(garbage_is_final)
{
    struct frame_head head = {.type = MSG_ACK, .meta_len = 5, .version = FRAME_VERSION};

    core_frame(h.core, 0, &head, "\xff\xff\xff\xff\xff", NULL, h.now);
    harness_perform(&h);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("core");
    TCase *join = tcase_create("join"), *joined = tcase_create("joined");

    tcase_add_checked_fixture(join, core_setup, core_teardown);
    tcase_add_test(join, hello_names_shard_job_and_incarnation);
    tcase_add_test(join, joined_when_every_shard_has_welcomed);
    tcase_add_test(join, starts_are_refused_before_joined);
    tcase_add_test(join, clock_is_the_highest_welcome_and_lower_shards_are_ticked_up);
    tcase_add_test(join, round_is_the_highest_welcome_and_lower_shards_are_told_first);
    tcase_add_test(join, taken_task_is_tried_again_and_named);
    tcase_add_loop_test(join, final_refusal_ends_the_join, 0, (int)ARRAY_LEN(finals));
    tcase_add_test(join, welcome_of_another_cluster_is_final);
    tcase_add_test(join, unreachable_shard_is_tried_with_growing_pauses);
    tcase_add_test(join, silent_connect_and_silent_hello_are_given_up);
    tcase_add_test(join, port_that_speaks_something_else_is_final);
    tcase_add_loop_test(join, what_is_final_ends_the_client_with_its_connection, PS_OK + 1, PS_ERR_COUNT);
    tcase_add_test(join, other_message_before_welcome_is_final);
    suite_add_tcase(s, join);

    tcase_add_checked_fixture(joined, setup_joined, core_teardown);
    tcase_add_test(joined, tick_goes_to_every_shard_and_raises_the_clock_at_once);
    tcase_add_test(joined, barrier_goes_to_one_shard);
    tcase_add_test(joined, barrier_with_a_place_goes_to_shard_0);
    tcase_add_test(joined, ack_sentence_is_the_shards);
    tcase_add_test(joined, codes_per_block_are_counted);
    tcase_add_test(joined, durable_push_says_so_and_what_the_disk_refused_was_applied);
    tcase_add_loop_test(joined, a_drop_never_hides_an_error, 0, 2);
    tcase_add_test(joined, lapsed_lease_ends_all_operations);
    tcase_add_test(joined, rejoin_is_a_new_incarnation_at_the_given_clock);
    tcase_add_test(joined, a_worker_whose_job_was_dropped_is_told_and_may_begin_anew);
    tcase_add_test(joined, a_hello_again_says_which_life_of_the_data_it_knew);
    tcase_add_test(joined, events_are_told);
    tcase_add_test(joined, draining_answer_waits_for_the_next_life);
    tcase_add_test(joined, idle_worker_pings_before_its_lease_ends);
    tcase_add_test(joined, silent_shard_is_probed_then_left);
    tcase_add_test(joined, caller_that_computes_for_minutes_keeps_its_connections);
    tcase_add_test(joined, timeout_names_shard_operation_and_reason);
    tcase_add_test(joined, timeout_says_who_holds_it_back);
    tcase_add_test(joined, timeout_says_where_they_stand);
    tcase_add_test(joined, query_answer_is_the_reports_bytes);
    tcase_add_test(joined, a_zeroed_optimizer_is_refused);
    tcase_add_test(joined, a_variable_that_could_have_no_checkpoint_is_refused);
    tcase_add_test(joined, declaration_that_a_shard_refuses_may_be_made_anew);
    tcase_add_test(joined, goodbye_is_said_and_connections_finish);
    tcase_add_test(joined, ack_of_what_was_not_sent_is_final);
    tcase_add_loop_test(joined, data_that_was_not_asked_for_is_final, 0, 2);
    tcase_add_loop_test(joined, data_of_another_length_is_final, 0, 2);
    tcase_add_test(joined, garbage_is_final);
    suite_add_tcase(s, joined);
    return s;
}

CHECK_MAIN(make_suite)
