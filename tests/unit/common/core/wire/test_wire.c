/* One good sample of every message. Tests send it round, spoil one field at a time, cut it short and shake it. */
#include "common/core/wire/wire.h"

#include <math.h>
#include <string.h>

#include "common/core/base/utf8.h"
#include "tests/unit/kits/check_main.h"

/* ---- Samples ---- */

static struct samples {
    Psd__AgePolicy age;
    Psd__Job job;
    Psd__Hello hello;
    char *names[WIRE_METRICS_MAX + 1];
    Psd__Welcome welcome;
    Psd__Initializer init;
    Psd__Optimizer optimizer;
    Psd__Declare declare;
    Psd__Declared declared;
    Psd__Attach attach;
    Psd__Pull pull;
    Psd__Data data;
    Psd__Push push;
    Psd__AckBlocks blocks, *blocks_list[1];
    Psd__Error error, *error_list[1];
    Psd__Ack ack;
    Psd__Tick tick;
    Psd__Metrics metrics;
    double values[WIRE_METRICS_MAX + 1];
    Psd__Barrier barrier;
    Psd__Skip skip;
    Psd__Cancel cancel;
    Psd__Query query;
    Psd__Histogram histogram;
    Psd__StatusReport status;
    Psd__StatsReport stats;
    Psd__VariableReport variable, *variable_list[1];
    Psd__WorkerReport worker, *worker_list[1];
    Psd__BlockedReport blocked, *blocked_list[1];
    Psd__Report report;
    Psd__TimelineReport timeline;
    uint64_t span_words[1];
    uint32_t span_shorts[1];
    Psd__Ping ping;
    Psd__Event event;
    Psd__Goodbye goodbye;
    Psd__Norm norm;
    Psd__JobReport job_report, *job_list[1];
    Psd__Parameter parameter, *parameter_list[WIRE_PARAMETERS_MAX + 1];
    Psd__Schedule schedule;
    Psd__Clip clip;
    Psd__AgePolicy set_age;
    Psd__Bound bound;
    Psd__Set set;
    Psd__SetDone set_done;
    Psd__Drain drain;
    Psd__Cursor cursor, cursor_from;
    Psd__Save save;
    Psd__SaveDone save_done;
    Psd__Checkpoint checkpoint;
    Psd__CheckpointVariable checkpoint_variable, *checkpoint_list[1];
    Psd__CheckpointDone checkpoint_done;
    Psd__Restore restore;
    Psd__RestoreDone restore_done;
    Psd__Evict evict;
    Psd__Evicted evicted;
    Psd__DefinitionField field[2], *field_list[2];
    Psd__Define define;
    Psd__Defined defined;
    Psd__Begins defined_begins;
    Psd__Drop drop;
    Psd__Dropped dropped;
    Psd__Assign assign;
    Psd__Assigned assigned;
    Psd__Meet meet;
    Psd__Meeting meeting;
    Psd__GroupMember member[2], *member_list[2];
    Psd__Met met;
    /* arrays, long enough to be one past any limit */
    uint64_t dims[WIRE_RANK_MAX + 1], long64[WIRE_BLOCKS_MAX + 1];
    uint32_t ids[WIRE_BLOCKS_MAX + 1], codes[WIRE_BLOCKS_MAX + 1];
    char text[WIRE_PATH_MAX + 2];
} m;

/* A text of n letters. */
static char *
wire_letters(size_t n)
{
    memset(m.text, 'x', n);
    m.text[n] = '\0';
    return m.text;
}

static void
samples_job(void)
{
    psd__age_policy__init(&m.age);
    m.age.kind = PSD__AGE_KIND__AGE_EXPONENTIAL;
    m.age.parameter = 0.9;
    psd__job__init(&m.job);
    m.job.name = (char *)"träin";
    m.job.mode = PSD__MODE__SYNC;
    m.job.workers = 4;
    m.job.quorum = 3;
    m.job.lapse = PSD__LAPSE__FAIL;
    m.job.age = &m.age;
}

static void
samples_greetings(void)
{
    psd__hello__init(&m.hello);
    m.hello.cluster = (char *)"psd";
    m.hello.shard = 1;
    m.hello.shards = 2;
    m.hello.job = &m.job;
    m.hello.task = 3;
    m.hello.incarnation = UINT64_MAX;
    m.hello.resume = 1;
    m.hello.lease_ms = 300000;
    m.hello.acked_through = 17;
    m.hello.agent = (char *)"host pid 7";
    m.names[0] = (char *)"rows";
    m.names[1] = (char *)"größe";
    m.hello.metric_names = m.names;
    m.hello.n_metric_names = 2;
    psd__welcome__init(&m.welcome);
    m.welcome.cluster = (char *)"psd";
    m.welcome.shard = 1;
    m.welcome.shards = 2;
    m.welcome.job = &m.job;
    m.welcome.last_seq = 9;
    m.welcome.clock = 4;
    m.welcome.slowest_clock = 3;
    m.welcome.boot = 77;
    m.welcome.grace_ms = 5000;
    m.welcome.in_flight_bytes_max = 1 << 30;
    psd__goodbye__init(&m.goodbye);
    m.goodbye.finished = 1;
    psd__ping__init(&m.ping);
    m.ping.token = 5;
}

static void
samples_variables(void)
{
    psd__initializer__init(&m.init);
    m.init.kind = PSD__INIT_KIND__NORMAL;
    m.init.a = 0.25;
    m.init.b = 2;
    m.init.seed = 7;
    psd__optimizer__init(&m.optimizer);
    m.optimizer.kind = PS_ADAM;
    m.optimizer.learning_rate = 0.001;
    m.optimizer.beta1 = 0.9;
    m.optimizer.beta2 = 0.999;
    m.optimizer.epsilon = 1e-7;
    psd__declare__init(&m.declare);
    m.declare.name = (char *)"layer/w";
    m.dims[0] = 3;
    m.dims[1] = 4;
    m.declare.dims = m.dims;
    m.declare.n_dims = 2;
    m.declare.init = &m.init;
    m.declare.optimizer = &m.optimizer;
    m.declare.nonfinite = PSD__NON_FINITE__ALLOW;
    psd__declared__init(&m.declared);
    m.declared.var = 12;
    m.declared.created = 1;
    m.declared.declare = &m.declare;
    psd__attach__init(&m.attach);
    m.attach.job = (char *)"train";
    m.attach.name = (char *)"layer1/w";
}

static void
samples_blocks(void)
{
    for (size_t i = 0; i <= WIRE_BLOCKS_MAX; i++) {
        m.ids[i] = (uint32_t)i + 1;
        m.long64[i] = i + 1;
        m.codes[i] = PS_ERR_STALE;
    }
    psd__pull__init(&m.pull);
    m.pull.var = m.pull.block = m.ids;
    m.pull.n_var = m.pull.n_block = m.pull.n_newer_than = 3;
    m.pull.newer_than = m.long64;
    m.pull.clock = 6;
    m.pull.now = 1;
    psd__data__init(&m.data);
    m.data.version = m.long64;
    m.data.n_version = m.data.n_code = 3;
    m.data.code = m.codes;
    m.data.clock = 5;
    m.data.seq = 11;
    psd__push__init(&m.push);
    m.push.seq = 12;
    m.push.clock = 6;
    m.push.acked_through = 11;
    m.push.var = m.push.block = m.ids;
    m.push.from_version = m.long64;
    m.push.n_var = m.push.n_block = m.push.n_from_version = 2;
    m.push.want_value = 1;
    psd__norm__init(&m.norm);
    m.norm.l2 = 2.5;
    m.push.norm = &m.norm;
}

static void
samples_answers(void)
{
    psd__error__init(&m.error);
    m.error.code = PS_ERR_SHAPE;
    m.error.text = (char *)"push 12 has the wrong length";
    m.error.seq = 12;
    m.error_list[0] = &m.error;
    psd__ack_blocks__init(&m.blocks);
    m.blocks.seq = 11;
    m.blocks.code = m.codes;
    m.blocks.n_code = 2;
    m.blocks_list[0] = &m.blocks;
    psd__ack__init(&m.ack);
    m.ack.seq = m.long64;
    m.ack.code = m.codes;
    m.ack.n_seq = m.ack.n_code = 2;
    m.ack.blocks = m.blocks_list;
    m.ack.error = m.error_list;
    m.ack.n_blocks = m.ack.n_error = 1;
    psd__event__init(&m.event);
    m.event.kind = PSD__EVENT_KIND__EVENT_REJOINED;
    m.event.task = 2;
    m.event.text = (char *)"worker 2 is back";
}

static void
samples_sequenced(void)
{
    psd__tick__init(&m.tick);
    m.tick.seq = 3;
    m.tick.clock = 2;
    m.tick.acked_through = 2;
    psd__barrier__init(&m.barrier);
    m.barrier.seq = 4;
    m.barrier.name = (char *)"epoch 1";
    psd__skip__init(&m.skip);
    m.skip.seq = 5;
    psd__cancel__init(&m.cancel);
    m.cancel.request = 6;
}

static void
samples_report_parts(void)
{
    psd__histogram__init(&m.histogram);
    m.histogram.count = m.long64;
    m.histogram.n_count = 5;
    psd__status_report__init(&m.status);
    m.status.cluster = m.status.version = m.status.live_dir = (char *)"text";
    m.status.blocks = 3;
    psd__stats_report__init(&m.stats);
    m.stats.age = &m.histogram;
    m.stats.turns = 4;
    psd__variable_report__init(&m.variable);
    m.variable.job = m.variable.name = m.variable.optimizer = m.variable.initializer = (char *)"text";
    m.variable.dims = m.dims;
    m.variable.n_dims = 2;
    m.variable_list[0] = &m.variable;
    psd__worker_report__init(&m.worker);
    m.worker.job = m.worker.agent = (char *)"text";
    m.worker_list[0] = &m.worker;
    psd__blocked_report__init(&m.blocked);
    m.blocked.job = m.blocked.what = m.blocked.variable = (char *)"text";
    m.blocked.on_task = m.ids;
    m.blocked.n_on_task = 2;
    m.blocked_list[0] = &m.blocked;
}

static void
samples_reports(void)
{
    samples_report_parts();
    psd__query__init(&m.query);
    m.query.kind = PSD__QUERY_KIND__VARIABLES;
    m.query.job = (char *)"train";
    m.query.after = (char *)"train/w";
    psd__report__init(&m.report);
    m.report.kind = PSD__QUERY_KIND__BLOCKED;
    m.report.status = &m.status;
    m.report.stats = &m.stats;
    m.report.variable = m.variable_list;
    m.report.worker = m.worker_list;
    m.report.blocked = m.blocked_list;
    psd__timeline_report__init(&m.timeline);
    m.timeline.start_ns = m.timeline.took_ns = m.timeline.step = m.timeline.bytes = m.span_words;
    m.timeline.what = m.timeline.task = m.timeline.commit_ns = m.timeline.answer_ns = m.span_shorts;
    m.timeline.n_start_ns = m.timeline.n_took_ns = m.timeline.n_step = m.timeline.n_bytes = 1;
    m.timeline.n_what = m.timeline.n_task = m.timeline.n_commit_ns = m.timeline.n_answer_ns = 1;
    m.report.timeline = &m.timeline;
    psd__job_report__init(&m.job_report);
    m.job_report.name = (char *)"train";
    m.job_report.options = (char *)"async, 3 workers";
    m.job_report.workers = 3;
    m.job_report.fastest_clock = 8;
    m.job_report.metric_names = m.names;
    m.job_report.n_metric_names = 2;
    m.job_list[0] = &m.job_report;
    m.report.job = m.job_list;
    m.report.n_variable = m.report.n_worker = m.report.n_blocked = m.report.n_job = 1;
    m.report.more = 1;
}

static void
samples_changes(void)
{
    psd__parameter__init(&m.parameter);
    m.parameter.name = (char *)"learning_rate";
    m.parameter.value = 0.5;
    for (size_t i = 0; i < ARRAY_LEN(m.parameter_list); i++)
        m.parameter_list[i] = &m.parameter;
    psd__schedule__init(&m.schedule);
    m.schedule.kind = PSD__SCHEDULE_KIND__SCHEDULE_STEP;
    m.schedule.by = PSD__SCHEDULE_BY__BY_CLOCK;
    m.schedule.warmup_steps = 3;
    m.schedule.steps = 10;
    m.schedule.factor = 0.5;
    m.schedule.floor = 1e-5;
    psd__clip__init(&m.clip);
    m.clip.kind = PSD__CLIP_KIND__CLIP_VALUE;
    m.clip.limit = 2;
    psd__age_policy__init(&m.set_age);
    m.set_age.kind = PSD__AGE_KIND__AGE_CUTOFF;
    m.set_age.parameter = 4;
    psd__bound__init(&m.bound);
    m.bound.clocks = 7;
    psd__set__init(&m.set);
    m.set.job = (char *)"train";
    m.set.variables = (char *)"layer*/w";
    m.set.n_parameter = 2;
    m.set.parameter = m.parameter_list;
    m.set.schedule = &m.schedule;
    m.set.clip = &m.clip;
    m.set.age = &m.set_age;
    m.set.bound = &m.bound;
    psd__set_done__init(&m.set_done);
    m.set_done.variables = 3;
    psd__drain__init(&m.drain);
}

static void
samples_saves(void)
{
    psd__cursor__init(&m.cursor);
    m.cursor.epoch = 2;
    m.cursor.position = 640;
    psd__cursor__init(&m.cursor_from);
    m.cursor_from.epoch = 2;
    m.cursor_from.position = 512;
    m.push.cursor = m.welcome.cursor = &m.cursor;
    m.push.cursor_from = &m.cursor_from;
    m.push.durable = 1;
    psd__metrics__init(&m.metrics);
    for (size_t i = 0; i < ARRAY_LEN(m.values); i++)
        m.values[i] = 1.5 * (double)i;
    m.metrics.n_value = WIRE_METRICS_MAX;
    m.metrics.value = m.values;
    m.metrics.at = &m.cursor;
    m.tick.metrics = m.welcome.metrics = &m.metrics;
    m.welcome.pushes = 17;
    m.welcome.survived_from = 5;
    m.welcome.survived = (ProtobufCBinaryData){2, (uint8_t *)m.long64};
    m.welcome.n_odd_seq = m.welcome.n_odd_code = 2;
    m.welcome.odd_seq = m.long64;
    m.welcome.odd_code = m.codes;
    m.welcome.odd_lost = 4;
    m.welcome.restored = (char *)"clock-100";
    m.welcome.restored_boot = 6;
    psd__save__init(&m.save);
    m.save.verify = true;
    psd__save_done__init(&m.save_done);
    m.save_done.save = 4;
    m.save_done.blocks = 9;
    m.save_done.verify = true;
    m.save_done.mended = 1;
    m.save_done.first_mended = (char *)"block 3 of variable 'w' of job 'train'";
    psd__checkpoint__init(&m.checkpoint);
    m.checkpoint.job = (char *)"train";
    m.checkpoint.dir = (char *)"/checkpoints/clock-100";
    m.checkpoint.at_clock = 1;
    m.checkpoint.clock = 100;
    psd__checkpoint_variable__init(&m.checkpoint_variable);
    m.checkpoint_variable.name = (char *)"layer1/w";
    m.checkpoint_variable.version_max = 100;
    m.checkpoint_list[0] = &m.checkpoint_variable;
    psd__checkpoint_done__init(&m.checkpoint_done);
    m.checkpoint_done.clock = 100;
    m.checkpoint_done.n_variable = 1;
    m.checkpoint_done.variable = m.checkpoint_list;
    psd__restore__init(&m.restore);
    m.restore.job = (char *)"again";
    m.restore.dir = (char *)"/checkpoints/latest";
    psd__restore_done__init(&m.restore_done);
    m.restore_done.blocks = 3;
    psd__evict__init(&m.evict);
    m.evict.job = (char *)"train";
    m.evict.task = 2;
    psd__evicted__init(&m.evicted);
    m.evicted.found = m.evicted.live = 1;
    m.evicted.clock = 7;
    m.evicted.agent = (char *)"host:17";
    for (size_t i = 0; i < 2; i++) {
        psd__definition_field__init(&m.field[i]);
        m.field_list[i] = &m.field[i];
    }
    m.field[0].name = (char *)"batch";
    m.field[0].value = (char *)"96";
    m.field[1].name = (char *)"data";
    psd__define__init(&m.define);
    m.define.n_field = 2;
    m.define.field = m.field_list;
    m.define.again = 1;
    psd__begins__init(&m.defined_begins);
    m.defined_begins.clock = 3;
    psd__defined__init(&m.defined);
    m.defined.round = 2;
    m.defined.begins = &m.defined_begins;
    psd__drop__init(&m.drop);
    m.drop.job = (char *)"train";
    m.drop.variables = (char *)"layer/*";
    m.drop.force = 1;
    psd__dropped__init(&m.dropped);
    m.dropped.found = 1;
    m.dropped.bytes = 77;
    psd__assign__init(&m.assign);
    m.assign.step = PSD__ASSIGN_STEP__STAGE;
    m.assign.attempt = 3;
    m.assign.number = 7;
    m.assign.n_var = m.assign.n_block = 2;
    m.assign.var = m.assign.block = m.ids;
    m.assign.first = true;
    psd__assigned__init(&m.assigned);
    m.assigned.number = 7;
    m.assigned.committed = 5;
    m.assigned.clock = 9;
}

static void
samples_meetings(void)
{
    psd__meet__init(&m.meet);
    m.meet.cluster = (char *)"psd";
    m.meet.group = (char *)"group";
    m.meet.workers = 4;
    m.meet.task = 3;
    m.meet.incarnation = 77;
    m.meet.attempt = 1;
    m.meet.epoch = 2;
    m.meet.ranks_min = 4;
    m.meet.settle_ms = 1000;
    m.meet.timeout_ms = 60000;
    m.meet.address = (char *)"[::1]:4000";
    m.meet.host = (char *)"a machine";
    psd__meeting__init(&m.meeting);
    m.meeting.workers = 2;
    for (uint32_t i = 0; i < ARRAY_LEN(m.member); i++) {
        psd__group_member__init(&m.member[i]);
        m.member[i].task = 2 * i;
        m.member[i].incarnation = 70 + i;
        m.member[i].address = (char *)"127.0.0.1:4000";
        m.member[i].host = (char *)"a machine";
        m.member_list[i] = &m.member[i];
    }
    psd__met__init(&m.met);
    m.met.epoch = 3;
    m.met.group = 99;
    m.met.n_member = ARRAY_LEN(m.member_list);
    m.met.member = m.member_list;
}

static ProtobufCMessage *
wire_sample(enum msg_type type)
{
    ProtobufCMessage *const of_type[MSG_TYPE_MAX] = {
        [MSG_HELLO] = &m.hello.base,
        [MSG_WELCOME] = &m.welcome.base,
        [MSG_DECLARE] = &m.declare.base,
        [MSG_PULL] = &m.pull.base,
        [MSG_DECLARED] = &m.declared.base,
        [MSG_DATA] = &m.data.base,
        [MSG_PUSH] = &m.push.base,
        [MSG_ACK] = &m.ack.base,
        [MSG_TICK] = &m.tick.base,
        [MSG_BARRIER] = &m.barrier.base,
        [MSG_SKIP] = &m.skip.base,
        [MSG_CANCEL] = &m.cancel.base,
        [MSG_QUERY] = &m.query.base,
        [MSG_REPORT] = &m.report.base,
        [MSG_PING] = &m.ping.base,
        [MSG_PONG] = &m.ping.base,
        [MSG_ERROR] = &m.error.base,
        [MSG_EVENT] = &m.event.base,
        [MSG_GOODBYE] = &m.goodbye.base,
        [MSG_SET] = &m.set.base,
        [MSG_SET_DONE] = &m.set_done.base,
        [MSG_DRAIN] = &m.drain.base,
        [MSG_ATTACH] = &m.attach.base,
        [MSG_SAVE] = &m.save.base,
        [MSG_SAVE_DONE] = &m.save_done.base,
        [MSG_CHECKPOINT] = &m.checkpoint.base,
        [MSG_CHECKPOINT_DONE] = &m.checkpoint_done.base,
        [MSG_RESTORE] = &m.restore.base,
        [MSG_RESTORE_DONE] = &m.restore_done.base,
        [MSG_MEET] = &m.meet.base,
        [MSG_MEETING] = &m.meeting.base,
        [MSG_MET] = &m.met.base,
        [MSG_EVICT] = &m.evict.base,
        [MSG_EVICTED] = &m.evicted.base,
        [MSG_DEFINE] = &m.define.base,
        [MSG_DEFINED] = &m.defined.base,
        [MSG_DROP] = &m.drop.base,
        [MSG_DROPPED] = &m.dropped.base,
        [MSG_ASSIGN] = &m.assign.base,
        [MSG_ASSIGNED] = &m.assigned.base,
    };

    return of_type[type];
}

/* ---- Sending one round ---- */

static struct arena arena;

static void
wire_setup(void)
{
    samples_job();
    samples_greetings();
    samples_variables();
    samples_blocks();
    samples_answers();
    samples_sequenced();
    samples_reports();
    samples_changes();
    samples_saves();
    samples_meetings();
}

static void
wire_teardown(void)
{
    arena_finish(&arena);
}

static uint64_t
payload_of(enum msg_type type)
{
    return type == MSG_PUSH || type == MSG_DATA || type == MSG_ASSIGN ? 64 : 0;
}

static enum ps_err
wire_decode_message(const uint8_t *frame, struct wire_msg *msg, struct ps_error *e)
{
    struct frame_head head;

    ck_assert_int_eq(frame_head_decode(frame, &head, NULL), PS_OK);
    return wire_decode(&head, frame + FRAME_HEAD_SIZE, &arena, msg, e);
}

/* Encode the sample as it is now, decode it. */
static enum ps_err
send_round(enum msg_type type, struct wire_msg *msg, struct ps_error *e)
{
    size_t len;
    uint8_t *frame = wire_encode_new(type, 99, wire_sample(type), payload_of(type), &len);
    enum ps_err err = wire_decode_message(frame, msg, e);

    free(frame);
    return err;
}

START_TEST(every_message_comes_back_as_it_was)
{
    enum msg_type type = (enum msg_type)_i;
    struct ps_error e = {0};
    struct wire_msg msg;
    uint8_t *frame, *again;
    size_t len, len_again;

    frame = wire_encode_new(type, 99, wire_sample(type), payload_of(type), &len);
    ck_assert_uint_eq(len, wire_size(wire_sample(type)));
    ck_assert_uint_eq(len % FRAME_ALIGN, 0);
    ck_assert_msg(wire_decode_message(frame, &msg, &e) == PS_OK, "%s: %s", wire_type_name(type), e.text);
    ck_assert_int_eq(msg.type, type);
    ck_assert_uint_eq(msg.request, 99);
    ck_assert_uint_eq(msg.payload_len, payload_of(type));
    again = wire_encode_new(type, 99, msg.u.base, payload_of(type), &len_again);
    ck_assert_uint_eq(len, len_again);
    ck_assert_mem_eq(frame, again, len);
    free(frame);
    free(again);
}
END_TEST

START_TEST(a_message_of_defaults_is_refused_or_filled_in)
{
    enum msg_type type = (enum msg_type)_i;
    struct frame_head head = {FRAME_VERSION, (uint16_t)type, 0, 0, 1};
    struct wire_msg msg;
    struct ps_error e;

    if (wire_decode(&head, "", &arena, &msg, &e) != PS_OK) {
        ck_assert_int_eq(e.code, PS_ERR_INVALID);
        return;
    }
    if (type == MSG_REPORT)
        ck_assert(msg.u.report->status != NULL && msg.u.report->stats != NULL && msg.u.report->stats->age != NULL);
}
END_TEST

START_TEST(parts_that_were_left_out_are_filled_in)
{
    struct wire_msg msg;

    m.hello.role = PSD__ROLE__OBSERVER;
    m.hello.cluster = (char *)"";
    m.hello.shards = m.hello.shard = 0;
    m.hello.job = NULL;
    ck_assert_int_eq(send_round(MSG_HELLO, &msg, NULL), PS_OK);
    ck_assert_str_eq(msg.u.hello->job->name, "");
    ck_assert_ptr_nonnull(msg.u.hello->job->age);
    m.welcome.job = NULL;
    ck_assert_int_eq(send_round(MSG_WELCOME, &msg, NULL), PS_OK);
    ck_assert_ptr_nonnull(msg.u.welcome->job->age);
    m.declare.init = NULL;
    ck_assert_int_eq(send_round(MSG_DECLARE, &msg, NULL), PS_OK);
    ck_assert_int_eq(msg.u.declare->init->kind, PSD__INIT_KIND__ZEROS);
    m.job.age = NULL;
    m.hello.role = PSD__ROLE__WORKER;
    m.hello.cluster = (char *)"psd";
    m.hello.shards = 1;
    m.hello.job = &m.job;
    ck_assert_int_eq(send_round(MSG_HELLO, &msg, NULL), PS_OK);
    ck_assert_int_eq(msg.u.hello->job->age->kind, PSD__AGE_KIND__AGE_NONE);
}
END_TEST

/* ---- Bad fields ---- */

/* "0", "1", ... */
static void
many_names(size_t n)
{
    static char text[WIRE_METRICS_MAX + 1][24]; /* any size_t */

    for (size_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%zu", i);
        m.names[i] = text[i];
    }
    m.hello.n_metric_names = n;
}

/* name, message, code, text of the sentence, how the sample is spoilt */
#define BAD_LIST(X)                                                                                                    \
    X(hello_role, HELLO, INVALID, "hello.role is 2", m.hello.role = 2)                                                 \
    X(hello_no_cluster, HELLO, INVALID, "cluster is empty", m.hello.cluster = (char *)"")                              \
    X(hello_cluster_utf8, HELLO, INVALID, "cluster is not valid UTF-8", m.hello.cluster = (char *)"a\xff")             \
    X(hello_cluster_long, HELLO, LIMIT, "cluster has 256 bytes", m.hello.cluster = wire_letters(256))                  \
    X(hello_shards_none, HELLO, INVALID, "shards is 0", m.hello.shards = 0)                                            \
    X(hello_shards_many, HELLO, LIMIT, "shards is 4097", m.hello.shards = 4097)                                        \
    X(hello_shard, HELLO, INVALID, "shard is 2", m.hello.shard = 2)                                                    \
    X(hello_agent, HELLO, LIMIT, "hello.agent has 256 bytes", m.hello.agent = wire_letters(256))                       \
    X(hello_agent_control, HELLO, INVALID, "hello.agent", m.hello.agent = (char *)"a\n")                               \
    X(hello_lease, HELLO, LIMIT, "hello.lease_ms", m.hello.lease_ms = WIRE_LEASE_MS_MAX + 1)                           \
    X(hello_task, HELLO, INVALID, "hello.task is 4", m.hello.task = 4)                                                 \
    X(hello_incarnation, HELLO, INVALID, "hello.incarnation", m.hello.incarnation = 0)                                 \
    X(hello_metrics, HELLO, LIMIT, "hello.metric_names is 33", many_names(33))                                         \
    X(hello_metric_none, HELLO, INVALID, "a metric's name is 1 to 63 bytes", m.names[1] = (char *)"")                  \
    X(hello_metric_long, HELLO, INVALID, "a metric's name is 1 to 63 bytes", m.names[1] = wire_letters(64))            \
    X(hello_metric_utf8, HELLO, INVALID, "a metric's name", m.names[0] = (char *)"a\xff")                              \
    X(hello_metric_twice, HELLO, INVALID, "metrics 0 and 1 are both called 'rows'", m.names[1] = m.names[0])           \
    X(hello_no_job, HELLO, INVALID, "job.name is empty", m.hello.job = NULL)                                           \
    X(job_name_long, HELLO, LIMIT, "job.name has 256", m.job.name = wire_letters(256))                                 \
    X(job_name_control, HELLO, INVALID, "job.name", m.job.name = (char *)"a\x7f")                                      \
    X(job_mode, HELLO, INVALID, "job.mode is 3", m.job.mode = 3)                                                       \
    X(job_lapse, HELLO, INVALID, "job.lapse is -1", m.job.lapse = -1)                                                  \
    X(job_workers_none, HELLO, INVALID, "job.workers is 0", m.job.workers = 0)                                         \
    X(job_workers_many, HELLO, LIMIT, "job.workers is 65537", m.job.workers = 65537)                                   \
    X(job_quorum_none, HELLO, INVALID, "job.quorum is 0", m.job.quorum = 0)                                            \
    X(job_quorum_many, HELLO, INVALID, "job.quorum is 5", m.job.quorum = 5)                                            \
    X(job_age_kind, HELLO, INVALID, "job.age.kind is 4", m.age.kind = 4)                                               \
    X(job_age_nan, HELLO, INVALID, "job.age.parameter is not finite", m.age.parameter = NAN)                           \
    X(job_age_range, HELLO, INVALID, "age policy", m.age.parameter = 1)                                                \
    X(welcome_cluster, WELCOME, INVALID, "cluster is empty", m.welcome.cluster = (char *)"")                           \
    X(welcome_shard, WELCOME, INVALID, "shard is 2", m.welcome.shard = 2)                                              \
    X(welcome_job, WELCOME, INVALID, "job.mode is 9", m.job.mode = 9)                                                  \
    X(welcome_odd_seq, WELCOME, LIMIT, "welcome.odd_seq",                                                              \
      m.welcome.n_odd_seq = m.welcome.n_odd_code = WIRE_ODD_MAX + 1)                                                   \
    X(welcome_restored, WELCOME, LIMIT, "welcome.restored has 256 bytes", m.welcome.restored = wire_letters(256))      \
    X(welcome_odd_code, WELCOME, INVALID, "welcome.odd_code", m.welcome.n_odd_code = 0)                                \
    X(welcome_survived, WELCOME, LIMIT, "welcome.survived", m.welcome.survived.len = WIRE_SURVIVED_MAX + 1)            \
    X(push_cursor, PUSH, INVALID, "push.cursor_from", m.cursor_from.position = 640)                                    \
    X(checkpoint_no_job, CHECKPOINT, INVALID, "checkpoint.job is empty", m.checkpoint.job = (char *)"")                \
    X(checkpoint_dir, CHECKPOINT, INVALID, "checkpoint.dir is not an absolute", m.checkpoint.dir = (char *)"x")        \
    X(checkpoint_dir_long, CHECKPOINT, LIMIT, "checkpoint.dir has 3501 bytes", m.checkpoint.dir = wire_letters(3501))  \
    X(checkpoint_name, CHECKPOINT_DONE, INVALID, "variable.name is empty", m.checkpoint_variable.name = (char *)"")    \
    X(meet_cluster, MEET, INVALID, "meet.cluster is empty", m.meet.cluster = (char *)"")                               \
    X(meet_group, MEET, INVALID, "meet.group is empty", m.meet.group = (char *)"")                                     \
    X(meet_group_long, MEET, LIMIT, "meet.group has 256 bytes", m.meet.group = wire_letters(256))                      \
    X(meet_group_control, MEET, INVALID, "meet.group", m.meet.group = (char *)"a\n")                                   \
    X(meet_no_workers, MEET, INVALID, "meet.workers is 0", m.meet.workers = 0)                                         \
    X(meet_workers, MEET, LIMIT, "meet.workers is 257", m.meet.workers = 257)                                          \
    X(meet_task, MEET, INVALID, "meet.task is 4", m.meet.task = 4)                                                     \
    X(meet_incarnation, MEET, INVALID, "meet.incarnation", m.meet.incarnation = 0)                                     \
    X(meet_attempt, MEET, INVALID, "meet.attempt", m.meet.attempt = 0)                                                 \
    X(meet_ranks_min, MEET, LIMIT, "meet.ranks_min is 5", m.meet.ranks_min = 5)                                        \
    X(meet_settle, MEET, LIMIT, "meet.settle_ms", m.meet.settle_ms = WIRE_LEASE_MS_MAX + 1)                            \
    X(meet_timeout, MEET, LIMIT, "meet.timeout_ms", m.meet.timeout_ms = WIRE_LEASE_MS_MAX + 1)                         \
    X(meet_no_address, MEET, INVALID, "meet.address is empty", m.meet.address = (char *)"")                            \
    X(meet_address, MEET, INVALID, "meet.address: 'here'", m.meet.address = (char *)"here")                            \
    X(meet_address_name, MEET, INVALID, "not the number", m.meet.address = (char *)"localhost:1")                      \
    X(meet_address_port, MEET, INVALID, "with a port", m.meet.address = (char *)"127.0.0.1:0")                         \
    X(meet_address_unix, MEET, INVALID, "not the number", m.meet.address = (char *)"unix:/a")                          \
    X(meet_address_long, MEET, LIMIT, "meet.address has 64 bytes", m.meet.address = wire_letters(64))                  \
    X(meet_host, MEET, LIMIT, "meet.host has 128 bytes", m.meet.host = wire_letters(128))                              \
    X(met_epoch, MET, INVALID, "met.epoch", m.met.epoch = 0)                                                           \
    X(met_nobody, MET, INVALID, "met.member is 0", m.met.n_member = 0)                                                 \
    X(met_order, MET, INVALID, "order of tasks", m.member[1].task = 0)                                                 \
    X(met_task, MET, INVALID, "met.member.task", m.member[1].task = 256)                                               \
    X(met_incarnation, MET, INVALID, "met.member.incarnation", m.member[0].incarnation = 0)                            \
    X(met_address, MET, INVALID, "met.member.address", m.member[1].address = (char *)"x")                              \
    X(met_host, MET, LIMIT, "met.member.host has 128 bytes", m.member[1].host = wire_letters(128))                     \
    X(evict_job, EVICT, INVALID, "evict.job is empty", m.evict.job = (char *)"")                                       \
    X(evict_job_long, EVICT, LIMIT, "evict.job has 256 bytes", m.evict.job = wire_letters(256))                        \
    X(evict_task, EVICT, LIMIT, "evict.task is 65536", m.evict.task = 65536)                                           \
    X(drop_job, DROP, INVALID, "drop.job is empty", m.drop.job = (char *)"")                                           \
    X(drop_job_long, DROP, LIMIT, "drop.job has 256 bytes", m.drop.job = wire_letters(256))                            \
    X(drop_variables_long, DROP, LIMIT, "drop.variables has 256 bytes", m.drop.variables = wire_letters(256))          \
    X(evicted_agent, EVICTED, LIMIT, "evicted.agent has 256 bytes", m.evicted.agent = wire_letters(256))               \
    X(define_nothing, DEFINE, INVALID, "define.field is 0", m.define.n_field = 0)                                      \
    X(define_name, DEFINE, INVALID, "a field's name is 1 to 63 bytes", m.field[0].name = (char *)"")                   \
    X(define_name_long, DEFINE, INVALID, "a field's name is 1 to 63 bytes", m.field[1].name = wire_letters(64))        \
    X(define_name_twice, DEFINE, INVALID, "both called 'batch'", m.field[1].name = (char *)"batch")                    \
    X(define_value_long, DEFINE, INVALID, "at most 127 bytes", m.field[1].value = wire_letters(128))                   \
    X(define_value_control, DEFINE, INVALID, "without control characters", m.field[0].value = (char *)"9\x1b")         \
    X(assign_step, ASSIGN, INVALID, "assign.step is 6", m.assign.step = 6)                                             \
    X(assign_attempt, ASSIGN, INVALID, "assign.attempt is 0", m.assign.attempt = 0)                                    \
    X(assign_number, ASSIGN, INVALID, "assign.number is 0", m.assign.number = 0)                                       \
    X(assign_number_max, ASSIGN, LIMIT, "assign.number is", m.assign.number = WIRE_ASSIGN_MAX + 1)                     \
    X(assign_committed, ASSIGN, LIMIT, "assign.committed is", m.assign.committed = UINT64_MAX)                         \
    X(assign_no_blocks, ASSIGN, INVALID, "assign.var is 0", m.assign.n_var = m.assign.n_block = 0)                     \
    X(assign_blocks, ASSIGN, INVALID, "assign.block", m.assign.n_block = 1)                                            \
    X(assign_blocks_late, ASSIGN, LIMIT, "assign.var is 2", m.assign.step = PSD__ASSIGN_STEP__COMMIT)                  \
    X(restore_dir, RESTORE, INVALID, "restore.dir is empty", m.restore.dir = (char *)"")                               \
    X(restore_job_long, RESTORE, LIMIT, "restore.job has 256 bytes", m.restore.job = wire_letters(256))                \
    X(attach_no_job, ATTACH, INVALID, "attach.job is empty", m.attach.job = (char *)"")                                \
    X(attach_job_long, ATTACH, LIMIT, "attach.job has 256 bytes", m.attach.job = wire_letters(256))                    \
    X(attach_no_name, ATTACH, INVALID, "attach.name is empty", m.attach.name = (char *)"")                             \
    X(attach_name_long, ATTACH, LIMIT, "attach.name has 256 bytes", m.attach.name = wire_letters(256))                 \
    X(attach_name_control, ATTACH, INVALID, "attach.name", m.attach.name = (char *)"a\x1b")                            \
    X(declared_name, DECLARED, INVALID, "declare.name is empty", m.declare.name = (char *)"")                          \
    X(declared_kind, DECLARED, INVALID, "declare.optimizer.kind", m.optimizer.kind = 99)                               \
    X(declare_no_name, DECLARE, INVALID, "declare.name is empty", m.declare.name = (char *)"")                         \
    X(declare_name_long, DECLARE, LIMIT, "declare.name has 256 bytes", m.declare.name = wire_letters(256))             \
    X(declare_name_metadata, DECLARE, INVALID, "'__metadata__'", m.declare.name = (char *)"__metadata__")              \
    X(declare_name_utf8, DECLARE, INVALID, "declare.name", m.declare.name = (char *)"\xc0\x80")                        \
    X(declare_dim_zero, DECLARE, INVALID, "declare.dims of 'layer/w' has a dimension of 0", m.dims[1] = 0)             \
    X(declare_rank, DECLARE, LIMIT, "declare.dims", (void)(many_dims(WIRE_RANK_MAX + 1)))                              \
    X(declare_elements, DECLARE, LIMIT, "declare.dims", m.dims[1] = WIRE_ELEMENTS_MAX / 3 + 1)                         \
    X(declare_overflow, DECLARE, LIMIT, "declare.dims", m.dims[1] = UINT64_MAX)                                        \
    X(declare_nonfinite, DECLARE, INVALID, "declare.nonfinite is 2", m.declare.nonfinite = 2)                          \
    X(init_kind, DECLARE, INVALID, "declare.init.kind is 13", m.init.kind = 13)                                        \
    X(init_a, DECLARE, INVALID, "declare.init.a is not finite", m.init.a = INFINITY)                                   \
    X(init_b, DECLARE, INVALID, "declare.init.b is not finite", m.init.b = NAN)                                        \
    X(init_deviation, DECLARE, INVALID, "initializer normal", m.init.b = -1)                                           \
    X(optimizer_kind, DECLARE, INVALID, "declare.optimizer.kind is 10", m.optimizer.kind = 10)                         \
    X(optimizer_rate, DECLARE, INVALID, "declare.optimizer.learning_rate", m.optimizer.learning_rate = NAN)            \
    X(optimizer_momentum, DECLARE, INVALID, "declare.optimizer.momentum", m.optimizer.momentum = NAN)                  \
    X(optimizer_beta1, DECLARE, INVALID, "declare.optimizer.beta1", m.optimizer.beta1 = -INFINITY)                     \
    X(optimizer_beta2, DECLARE, INVALID, "declare.optimizer.beta2", m.optimizer.beta2 = NAN)                           \
    X(optimizer_epsilon, DECLARE, INVALID, "declare.optimizer.epsilon", m.optimizer.epsilon = NAN)                     \
    X(optimizer_start, DECLARE, INVALID, "initial_accumulator", m.optimizer.initial_accumulator = NAN)                 \
    X(optimizer_rho, DECLARE, INVALID, "declare.optimizer.rho is not finite", m.optimizer.rho = NAN)                   \
    X(optimizer_decay, DECLARE, INVALID, "weight_decay must be at least 0", m.optimizer.weight_decay = -1)             \
    X(optimizer_kind_far, DECLARE, INVALID, "declare.optimizer.kind", m.optimizer.kind = UINT32_MAX)                   \
    X(declare_schedule_kind, DECLARE, INVALID, "schedule.kind is 5",                                                   \
      (m.optimizer.schedule = &m.schedule, m.schedule.kind = (Psd__ScheduleKind)5))                                    \
    X(declare_schedule_steps, DECLARE, INVALID, "schedule: steps must be at least 1",                                  \
      (m.optimizer.schedule = &m.schedule, m.schedule.steps = 0))                                                      \
    X(declare_schedule_floor, DECLARE, INVALID, "schedule.floor is not finite",                                        \
      (m.optimizer.schedule = &m.schedule, m.schedule.floor = NAN))                                                    \
    X(declare_clip_kind, DECLARE, INVALID, "clip.kind is 4",                                                           \
      (m.optimizer.clip = &m.clip, m.clip.kind = (Psd__ClipKind)4))                                                    \
    X(declare_clip_limit, DECLARE, INVALID, "clip: limit must be greater than 0",                                      \
      (m.optimizer.clip = &m.clip, m.clip.limit = 0))                                                                  \
    X(optimizer_range, DECLARE, INVALID, "adam", m.optimizer.beta1 = 1.5)                                              \
    X(pull_empty, PULL, INVALID, "the number of pull.var is 0", m.pull.n_var = m.pull.n_block = 0)                     \
    X(pull_many, PULL, LIMIT, "the number of pull.var is 8193", m.pull.n_var = m.pull.n_block = 8193)                  \
    X(pull_block, PULL, INVALID, "pull.block has 2 entries, pull.var has 3", m.pull.n_block = 2)                       \
    X(pull_newer_than, PULL, INVALID, "pull.newer_than has 4 entries", m.pull.n_newer_than = 4)                        \
    X(data_empty, DATA, INVALID, "the number of data.version is 0", m.data.n_version = 0)                              \
    X(data_many, DATA, LIMIT, "the number of data.version is 8193", m.data.n_version = 8193)                           \
    X(data_code, DATA, INVALID, "data.code has 1 entries", m.data.n_code = 1)                                          \
    X(push_seq, PUSH, INVALID, "push.seq is 0", m.push.seq = 0)                                                        \
    X(push_acked, PUSH, INVALID, "push.seq is 12, but acked_through is 12", m.push.acked_through = 12)                 \
    X(push_empty, PUSH, INVALID, "the number of push.var is 0", m.push.n_var = 0)                                      \
    X(push_many, PUSH, LIMIT, "the number of push.var is 8193", m.push.n_var = m.push.n_block = 8193)                  \
    X(push_block, PUSH, INVALID, "push.block has 3 entries", m.push.n_block = 3)                                       \
    X(push_from, PUSH, INVALID, "push.from_version has 1 entries", m.push.n_from_version = 1)                          \
    X(push_norm_negative, PUSH, INVALID, "push.norm.l2 is -1", m.norm.l2 = -1)                                         \
    X(push_norm_nan, PUSH, INVALID, "push.norm.l2 is", m.norm.l2 = NAN)                                                \
    X(push_norm_infinite, PUSH, INVALID, "push.norm.l2 is inf", m.norm.l2 = INFINITY)                                  \
    X(ack_seq, ACK, INVALID, "ack.seq is 0", m.long64[1] = 0)                                                          \
    X(ack_code, ACK, INVALID, "ack.code has 1 entries", m.ack.n_code = 1)                                              \
    X(ack_blocks_seq, ACK, INVALID, "ack.blocks.seq is 0", m.blocks.seq = 0)                                           \
    X(ack_blocks_code, ACK, INVALID, "the number of ack.blocks.code is 0", m.blocks.n_code = 0)                        \
    X(ack_blocks_many, ACK, LIMIT, "the number of ack.blocks.code is 8193", m.blocks.n_code = 8193)                    \
    X(ack_error_code, ACK, INVALID, "ack.error.code is 0", m.error.code = 0)                                           \
    X(ack_error_text, ACK, LIMIT, "ack.error.text has 2049 bytes", m.error.text = wire_letters(2049))                  \
    X(tick_seq, TICK, INVALID, "tick.seq is 0", m.tick.seq = 0)                                                        \
    X(tick_acked, TICK, INVALID, "tick.seq is 3, but acked_through is 9", m.tick.acked_through = 9)                    \
    X(tick_metrics, TICK, LIMIT, "the number of tick.metrics is 33", m.metrics.n_value = 33)                           \
    X(welcome_metrics, WELCOME, LIMIT, "the number of welcome.metrics is 33", m.metrics.n_value = 33)                  \
    X(barrier_seq, BARRIER, INVALID, "barrier.seq is 0", m.barrier.seq = 0)                                            \
    X(barrier_no_name, BARRIER, INVALID, "barrier.name is empty", m.barrier.name = (char *)"")                         \
    X(barrier_name_long, BARRIER, LIMIT, "barrier.name has 256", m.barrier.name = wire_letters(256))                   \
    X(barrier_name_utf8, BARRIER, INVALID, "barrier.name", m.barrier.name = (char *)"\xed\xa0\x80")                    \
    X(skip_seq, SKIP, INVALID, "skip.seq is 0", m.skip.seq = 0)                                                        \
    X(cancel_request, CANCEL, INVALID, "cancel.request is 0", m.cancel.request = 0)                                    \
    X(query_kind, QUERY, INVALID, "query.kind is 8", m.query.kind = 8)                                                 \
    X(query_job, QUERY, LIMIT, "query.job has 256", m.query.job = wire_letters(256))                                   \
    X(query_after, QUERY, LIMIT, "query.after has 512", m.query.after = wire_letters(512))                             \
    X(query_after_utf8, QUERY, INVALID, "query.after", m.query.after = (char *)"\x01")                                 \
    X(report_kind, REPORT, INVALID, "report.kind is 8", m.report.kind = 8)                                             \
    X(report_text, REPORT, LIMIT, "report.status.live_dir", m.status.live_dir = wire_letters(2049))                    \
    X(report_buckets, REPORT, LIMIT, "report.stats.age.count is 65", m.histogram.n_count = 65)                         \
    X(report_dims, REPORT, LIMIT, "report.variable.dims is 9", m.variable.n_dims = 9)                                  \
    X(report_timeline, REPORT, INVALID, "report.timeline are not of one length", m.timeline.n_task = 0)                \
    X(report_job, REPORT, LIMIT, "report.job.options", m.job_report.options = wire_letters(2049))                      \
    X(error_code, ERROR, INVALID, "error.code is 0", m.error.code = 0)                                                 \
    X(error_text, ERROR, LIMIT, "error.text has 2049 bytes", m.error.text = wire_letters(2049))                        \
    X(event_kind, EVENT, INVALID, "event.kind is 3", m.event.kind = 3)                                                 \
    X(event_text, EVENT, LIMIT, "event.text has 2049 bytes", m.event.text = wire_letters(2049))                        \
    X(set_no_job, SET, INVALID, "set.job is empty", m.set.job = (char *)"")                                            \
    X(set_job_utf8, SET, INVALID, "set.job is not valid UTF-8", m.set.job = (char *)"\xff")                            \
    X(set_pattern_long, SET, LIMIT, "set.variables has 256 bytes", m.set.variables = wire_letters(256))                \
    X(set_pattern_control, SET, INVALID, "set.variables", m.set.variables = (char *)"a\n*")                            \
    X(set_no_pattern, SET, INVALID, "set.variables is empty", m.set.variables = (char *)"")                            \
    X(set_no_change, SET, INVALID, "nothing is to change", (void)(no_changes("")))                                     \
    X(set_idle_pattern, SET, INVALID, "nothing of them is to change", (void)(no_changes("*")))                         \
    X(set_parameters, SET, LIMIT, "the number of set.parameter is 65", m.set.n_parameter = 65)                         \
    X(set_parameter_no_name, SET, INVALID, "set.parameter.name is empty", m.parameter.name = (char *)"")               \
    X(set_parameter_long, SET, LIMIT, "set.parameter.name has 256", m.parameter.name = wire_letters(256))              \
    X(set_parameter_nan, SET, INVALID, "set.parameter.value is not finite", m.parameter.value = NAN)                   \
    X(set_schedule_kind, SET, INVALID, "schedule.kind is 5", m.schedule.kind = 5)                                      \
    X(set_schedule_by, SET, INVALID, "schedule.by is 2", m.schedule.by = 2)                                            \
    X(set_schedule_factor, SET, INVALID, "schedule.factor", m.schedule.factor = NAN)                                   \
    X(set_schedule_floor, SET, INVALID, "schedule.floor", m.schedule.floor = INFINITY)                                 \
    X(set_clip_kind, SET, INVALID, "clip.kind is 4", m.clip.kind = 4)                                                  \
    X(set_clip_limit, SET, INVALID, "clip.limit", m.clip.limit = NAN)                                                  \
    X(set_age_kind, SET, INVALID, "set.age.kind is 4", m.set_age.kind = 4)                                             \
    X(set_age_nan, SET, INVALID, "set.age.parameter is not finite", m.set_age.parameter = NAN)                         \
    X(set_age_range, SET, INVALID, "age policy", m.set_age.parameter = -1)

static int
many_dims(size_t n)
{
    for (size_t i = 0; i < n; i++)
        m.dims[i] = 1;
    m.declare.n_dims = n;
    return 0;
}

static int
no_changes(const char *variables)
{
    psd__set__init(&m.set);
    m.set.job = (char *)"train";
    m.set.variables = (char *)variables;
    return 0;
}

#define BAD_FUNCTION(name, type, code, says, spoil)                                                                    \
    static void spoil_##name(void)                                                                                     \
    {                                                                                                                  \
        spoil;                                                                                                         \
    }
BAD_LIST(BAD_FUNCTION)

static const struct bad {
    const char *name;
    enum msg_type type;
    enum ps_err code;
    const char *says;
    void (*spoil)(void);
} bads[] = {
#define BAD_ROW(name, type, code, says, spoil) {#name, MSG_##type, PS_ERR_##code, says, spoil_##name},
    BAD_LIST(BAD_ROW)};

START_TEST(a_bad_field_is_refused_and_named)
{
    const struct bad *bad = &bads[_i];
    struct ps_error e = {0};
    struct wire_msg msg;
    enum ps_err err;

    bad->spoil();
    err = send_round(bad->type, &msg, &e);
    ck_assert_msg(err == bad->code, "%s: %s instead of %s (%s)", bad->name, ps_err_name(err), ps_err_name(bad->code),
                  e.text);
    ck_assert_msg(strstr(e.text, bad->says) != NULL, "%s: '%s' does not say '%s'", bad->name, e.text, bad->says);
}
END_TEST

/* Values exactly at a limit pass. */
START_TEST(the_limits_themselves_are_allowed)
{
    struct wire_msg msg;
    struct ps_error e;

    m.hello.lease_ms = WIRE_LEASE_MS_MAX;
    m.hello.shards = WIRE_SHARDS_MAX;
    m.hello.shard = WIRE_SHARDS_MAX - 1;
    m.job.workers = m.job.quorum = WIRE_WORKERS_MAX;
    m.hello.task = WIRE_WORKERS_MAX - 1;
    m.job.name = m.hello.cluster = m.hello.agent = wire_letters(255);
    many_names(WIRE_METRICS_MAX);
    m.names[0] = wire_letters(WIRE_METRIC_NAME_MAX);
    ck_assert_msg(send_round(MSG_HELLO, &msg, &e) == PS_OK, "%s", e.text);
    m.declare.name = m.barrier.name = wire_letters(255);
    many_dims(WIRE_RANK_MAX);
    m.dims[3] = WIRE_ELEMENTS_MAX;
    ck_assert_msg(send_round(MSG_DECLARE, &msg, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(send_round(MSG_BARRIER, &msg, &e) == PS_OK, "%s", e.text);
    m.declare.n_dims = 0; /* a scalar */
    ck_assert_msg(send_round(MSG_DECLARE, &msg, &e) == PS_OK, "%s", e.text);
    m.error.text = wire_letters(WIRE_ERROR_TEXT_MAX);
    ck_assert_msg(send_round(MSG_ERROR, &msg, &e) == PS_OK, "%s", e.text);
}
END_TEST

/* The longest arrays with the longest numbers: a sender that keeps to WIRE_BLOCKS_MAX never exceeds FRAME_META_MAX. */
START_TEST(the_largest_push_fits_a_frame)
{
    struct wire_msg msg;
    struct ps_error e;

    memset(m.ids, 0xff, sizeof m.ids);
    memset(m.long64, 0xff, sizeof m.long64);
    m.push.n_var = m.push.n_block = m.push.n_from_version = WIRE_BLOCKS_MAX;
    m.pull.n_var = m.pull.n_block = m.pull.n_newer_than = WIRE_BLOCKS_MAX;
    m.data.n_version = m.data.n_code = WIRE_BLOCKS_MAX;
    memset(m.codes, 0xff, sizeof m.codes);
    ck_assert_uint_le(wire_size(&m.push.base), FRAME_META_MAX);
    ck_assert_uint_le(wire_size(&m.pull.base), FRAME_META_MAX);
    ck_assert_uint_le(wire_size(&m.data.base), FRAME_META_MAX);
    ck_assert_msg(send_round(MSG_PUSH, &msg, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(send_round(MSG_PULL, &msg, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(send_round(MSG_DATA, &msg, &e) == PS_OK, "%s", e.text);
}
END_TEST

/* ---- The frame around it ---- */

START_TEST(only_messages_with_blocks_may_carry_a_payload)
{
    enum msg_type type = (enum msg_type)_i;
    struct frame_head head = {FRAME_VERSION, (uint16_t)type, 0, 8, 1};
    bool may = type == MSG_PUSH || type == MSG_DATA || type == MSG_ASSIGN;
    struct ps_error e = {0};
    struct wire_msg msg;

    if (may)
        ck_assert_int_ne(wire_decode(&head, "", &arena, &msg, &e), PS_ERR_PROTOCOL);
    else
        ck_assert_int_eq(wire_decode(&head, "", &arena, &msg, &e), PS_ERR_PROTOCOL);
    ck_assert(may || strstr(e.text, "may not carry a payload") != NULL);
}
END_TEST

START_TEST(what_is_answered_has_a_request_id)
{
    enum msg_type type = (enum msg_type)_i;
    bool may_be_0 = type == MSG_ACK || type == MSG_CANCEL || type == MSG_ERROR || type == MSG_EVENT ||
                    type == MSG_GOODBYE || type == MSG_DRAIN;
    struct ps_error e = {0};
    struct wire_msg msg;
    size_t len;
    uint8_t *frame = wire_encode_new(type, 0, wire_sample(type), payload_of(type), &len);

    ck_assert_int_eq(wire_decode_message(frame, &msg, &e), may_be_0 ? PS_OK : PS_ERR_INVALID);
    ck_assert(may_be_0 || strstr(e.text, "request id is 0") != NULL);
    free(frame);
}
END_TEST

START_TEST(an_unknown_type_is_refused)
{
    struct frame_head head = {FRAME_VERSION, MSG_NONE, 0, 0, 1};
    struct wire_msg msg;

    ck_assert_int_eq(wire_decode(&head, "", &arena, &msg, NULL), PS_ERR_PROTOCOL);
    head.type = MSG_TYPE_MAX;
    ck_assert_int_eq(wire_decode(&head, "", &arena, &msg, NULL), PS_ERR_PROTOCOL);
    ck_assert_str_eq(wire_type_name(MSG_PUSH), "push");
    ck_assert_str_eq(wire_type_name(MSG_TYPE_MAX), "unknown message");
    ck_assert_str_eq(wire_type_name((enum msg_type)77), "unknown message");
}
END_TEST

/* 128 Ki empty reports in 256 KiB: they would unpack to tens of MiB. */
START_TEST(a_small_message_cannot_unpack_to_much)
{
    size_t len = 256 * KIB;
    uint8_t *meta = malloc(len);
    struct frame_head head = {FRAME_VERSION, MSG_REPORT, (uint32_t)len, 0, 1};
    struct ps_error e = {0};
    struct wire_msg msg;

    for (size_t i = 0; i < len; i += 2) {
        meta[i] = 3 << 3 | 2; /* report.variable, length-delimited */
        meta[i + 1] = 0;
    }
    ck_assert_int_eq(wire_decode(&head, meta, &arena, &msg, &e), PS_ERR_LIMIT);
    ck_assert_uint_le(arena.total, ARENA_BYTES_MAX);
    free(meta);
}
END_TEST

/* The same bytes in a heap block of exactly their size, so that address checkers see one byte too many. */
static enum ps_err
decode_copy(enum msg_type type, const uint8_t *meta, size_t len)
{
    struct frame_head head = {FRAME_VERSION, (uint16_t)type, (uint32_t)len, payload_of(type), 1};
    uint8_t *copy = malloc(len > 0 ? len : 1);
    struct wire_msg msg;
    struct ps_error e;
    enum ps_err err;

    memcpy(copy, meta, len);
    err = wire_decode(&head, copy, &arena, &msg, &e);
    free(copy);
    arena_reset(&arena);
    return err;
}

static bool
is_refusal_or_ok(enum ps_err err)
{
    return err == PS_OK || err == PS_ERR_PROTOCOL || err == PS_ERR_INVALID || err == PS_ERR_LIMIT;
}

START_TEST(a_message_cut_anywhere_is_no_harm)
{
    enum msg_type type = (enum msg_type)_i;
    size_t len, refused = 0;
    uint8_t *frame = wire_encode_new(type, 1, wire_sample(type), 0, &len);
    size_t meta_len = protobuf_c_message_get_packed_size(wire_sample(type));

    for (size_t cut = 0; cut < meta_len; cut++) {
        enum ps_err err = decode_copy(type, frame + FRAME_HEAD_SIZE, cut);

        ck_assert(is_refusal_or_ok(err));
        refused += err != PS_OK;
    }
    ck_assert(refused > 0 || meta_len == 0); /* a drain says nothing */
    free(frame);
}
END_TEST

START_TEST(a_shaken_message_is_no_harm)
{
    enum msg_type type = (enum msg_type)_i;
    struct test_rng rng = {test_seed() + (uint64_t)_i};
    size_t len, meta_len = protobuf_c_message_get_packed_size(wire_sample(type));
    uint8_t *frame = wire_encode_new(type, 1, wire_sample(type), 0, &len), *shaken = malloc(meta_len);
    size_t refused = 0;

    for (int round = 0; round < 2000 && meta_len > 0; round++) {
        enum ps_err err;

        memcpy(shaken, frame + FRAME_HEAD_SIZE, meta_len);
        for (uint64_t i = 1 + test_below(&rng, 5); i > 0; i--)
            shaken[test_below(&rng, meta_len)] = (uint8_t)test_rand(&rng);
        err = decode_copy(type, shaken, meta_len);
        ck_assert(is_refusal_or_ok(err));
        refused += err != PS_OK;
    }
    ck_assert(refused > 0 || meta_len == 0);
    free(frame);
    free(shaken);
}
END_TEST

/* Bytes of all texts in it. */
static size_t
text_bytes(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    size_t sum = 0;

    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        const uint8_t *at = (const uint8_t *)message + f->offset;
        size_t n = 1;

        if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            n = *(const size_t *)((const uint8_t *)message + f->quantifier_offset);
            at = *(const uint8_t *const *)at;
        }
        for (size_t k = 0; k < n; k++) {
            const void *one = ((const void *const *)at)[k];

            if (one != NULL)
                sum += f->type == PROTOBUF_C_TYPE_STRING ? strlen(one) : text_bytes(one);
        }
    }
    return sum;
}

/* Whether a message of this type, or one inside it, has texts. */
static bool
wire_has_texts(const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &type->fields[i];

        if (f->type == PROTOBUF_C_TYPE_STRING || (f->type == PROTOBUF_C_TYPE_MESSAGE && wire_has_texts(f->descriptor)))
            return true;
    }
    return false;
}

/* Past it the text would be cut off, and a name be another one. */
START_TEST(a_byte_0_in_any_text_is_refused)
{
    enum msg_type type = (enum msg_type)_i;
    size_t len, meta_len = protobuf_c_message_get_packed_size(wire_sample(type)), found = 0;
    uint8_t *frame = wire_encode_new(type, 1, wire_sample(type), 0, &len);
    struct frame_head head = {FRAME_VERSION, (uint16_t)type, (uint32_t)meta_len, 0, 1};

    for (size_t at = 0; at < meta_len; at++) {
        uint8_t was = frame[FRAME_HEAD_SIZE + at];
        struct ps_error e = {0};
        struct wire_msg msg;

        frame[FRAME_HEAD_SIZE + at] = 0;
        found += wire_decode(&head, frame + FRAME_HEAD_SIZE, &arena, &msg, &e) == PS_ERR_INVALID &&
                 strstr(e.text, "has a byte 0") != NULL;
        frame[FRAME_HEAD_SIZE + at] = was;
        arena_reset(&arena);
    }
    ck_assert_msg(found >= text_bytes(wire_sample(type)), "%s: %zu of %zu bytes", wire_type_name(type), found,
                  text_bytes(wire_sample(type)));
    ck_assert(found == 0 || !wire_is_of_numbers(type));
    ck_assert(!wire_is_of_numbers(type) || !wire_has_texts(wire_sample(type)->descriptor));
    free(frame);
}
END_TEST

/* ---- Made good ---- */

START_TEST(sentences_are_made_clean)
{
    struct wire_msg msg;

    m.error.text = (char *)"bad \x1b[31m\xff na\xc3\xafve\ncut \xc3";
    ck_assert_int_eq(send_round(MSG_ERROR, &msg, NULL), PS_OK);
    ck_assert_str_eq(msg.u.error->text, "bad ?[31m? na\xc3\xafve?cut ?");
    m.status.live_dir = (char *)"/dev/shm/\x02";
    ck_assert_int_eq(send_round(MSG_REPORT, &msg, NULL), PS_OK);
    ck_assert_str_eq(msg.u.report->status->live_dir, "/dev/shm/?");
}
END_TEST

START_TEST(codes_of_a_newer_peer_become_internal)
{
    struct wire_msg msg;

    m.codes[0] = PS_ERR_COUNT - 1;
    m.codes[1] = PS_ERR_COUNT;
    m.error.code = UINT32_MAX;
    ck_assert_int_eq(send_round(MSG_ACK, &msg, NULL), PS_OK);
    ck_assert_uint_eq(msg.u.ack->code[0], PS_ERR_COUNT - 1);
    ck_assert_uint_eq(msg.u.ack->code[1], PS_ERR_INTERNAL);
    ck_assert_uint_eq(msg.u.ack->blocks[0]->code[1], PS_ERR_INTERNAL);
    ck_assert_uint_eq(msg.u.ack->error[0]->code, PS_ERR_INTERNAL);
    ck_assert_int_eq(send_round(MSG_DATA, &msg, NULL), PS_OK);
    ck_assert_uint_eq(msg.u.data->code[1], PS_ERR_INTERNAL);
}
END_TEST

/* ---- Text, shapes, definitions ---- */

static const struct {
    const char *text;
    bool ok;
} texts[] = {
    {"", true},
    {"plain ASCII ~", true},
    {"\xc2\xa0", true},
    {"\xdf\xbf", true},
    {"\xe0\xa0\x80", true},
    {"\xed\x9f\xbf", true},
    {"\xee\x80\x80", true},
    {"\xf0\x90\x80\x80", true},
    {"\xf4\x8f\xbf\xbf", true},
    {"日本", true},
    {"\x1f", false},
    {"a\x7f", false},
    {"\xc2\x80", false},         /* control */
    {"\xc2\x9f", false},         /* control */
    {"\x80", false},             /* continuation alone */
    {"\xc0\xaf", false},         /* overlong */
    {"\xc1\xbf", false},         /* overlong */
    {"\xe0\x9f\xbf", false},     /* overlong */
    {"\xf0\x8f\xbf\xbf", false}, /* overlong */
    {"\xed\xa0\x80", false},     /* surrogate */
    {"\xed\xbf\xbf", false},     /* surrogate */
    {"\xf4\x90\x80\x80", false}, /* past U+10FFFF */
    {"\xf5\x80\x80\x80", false},
    {"\xff", false},
    {"\xe2\x82", false}, /* cut */
    {"\xf0\x9f\x98", false},
    {"\xe2\x28\xa1", false},
    {"a\xe2\x80\xae"
     "b",
     false},                 /* right to left from here on */
    {"\xe2\x81\xa6", false}, /* an isolate */
    {"\xe2\x81\xa9", false},
    {"\xd8\x9c", false},     /* a mark */
    {"\xe2\x80\x8e", false}, /* a mark */
    {"\xe2\x80\xa8", false}, /* a line's end */
    {"\xe2\x80\x8d", true},  /* joins an emoji */
    {"\xe2\x81\xa5", true},
    {"\xe2\x80\xaf", true},
};

START_TEST(text_is_utf8_without_control_characters)
{
    char copy[32];

    ck_assert(utf8_is_printable(texts[_i].text, strlen(texts[_i].text)) == texts[_i].ok);
    strcpy(copy, texts[_i].text);
    utf8_clean(copy);
    ck_assert(utf8_is_printable(copy, strlen(copy)));
    ck_assert((strcmp(copy, texts[_i].text) == 0) == texts[_i].ok);
}
END_TEST

START_TEST(elements_are_the_product_of_the_dimensions)
{
    uint64_t dims[9] = {3, 5, 7, 1, 1, 1, 1, 1, 1}, elements = 0, huge[2] = {WIRE_ELEMENTS_MAX, 1};

    ck_assert_int_eq(wire_elements(dims, 0, &elements), PS_OK);
    ck_assert_uint_eq(elements, 1);
    ck_assert_int_eq(wire_elements(dims, 8, &elements), PS_OK);
    ck_assert_uint_eq(elements, 105);
    ck_assert_int_eq(wire_elements(dims, 9, &elements), PS_ERR_LIMIT);
    ck_assert_int_eq(wire_elements(huge, 2, &elements), PS_OK);
    ck_assert_uint_eq(elements, WIRE_ELEMENTS_MAX);
    huge[1] = 2;
    ck_assert_int_eq(wire_elements(huge, 2, &elements), PS_ERR_LIMIT);
    huge[0] = huge[1] = UINT64_MAX;
    ck_assert_int_eq(wire_elements(huge, 2, &elements), PS_ERR_LIMIT);
    huge[1] = 0; /* a zero is named even where the product before it is too large */
    ck_assert_int_eq(wire_elements(huge, 2, &elements), PS_ERR_INVALID);
}
END_TEST

/* The difference of another declaration. */
static const char *
wire_differences(const Psd__Declare *other)
{
    static char out[1024];

    wire_declare_differences(&m.declare, other, out, sizeof out);
    return out;
}

START_TEST(a_mismatch_names_what_differs_with_both_values)
{
    Psd__Declare other = m.declare;
    Psd__Initializer init = m.init;
    Psd__Optimizer optimizer = m.optimizer;
    char small[20];

    other.init = &init;
    other.optimizer = &optimizer;
    other.n_dims = 0;
    ck_assert_str_eq(wire_differences(&other), "shape float32[3,4], not float32[]");
    other.n_dims = m.declare.n_dims;
    init.kind = PSD__INIT_KIND__CONSTANT;
    init.a = 0.1 + 0.2;
    ck_assert_str_eq(wire_differences(&other),
                     "first values normal(mean 0.25, deviation 2, seed 7), not constant(0.30000000000000004)");
    init.kind = PSD__INIT_KIND__HE_UNIFORM;
    ck_assert_ptr_nonnull(strstr(wire_differences(&other), ", not he_uniform(seed 7)"));
    init = m.init;
    optimizer.kind = PS_NESTEROV;
    optimizer.momentum = 0.5;
    other.nonfinite = PSD__NON_FINITE__REFUSE;
    ck_assert_str_eq(wire_differences(&other), "optimizer adam:learning_rate=0.001, not nesterov:learning_rate=0.001,"
                                               "momentum=0.5; NaN and Inf allowed, not refused");
    wire_declare_differences(&m.declare, &other, small, sizeof small);
    ck_assert_str_eq(small, "optimizer adam:lear");
}
END_TEST

/* name, what is changed, whether the definition is still the same */
#define CHANGE_LIST(X)                                                                                                 \
    X(nothing, (void)0, true)                                                                                          \
    X(name, other.name = (char *)"other", true)                                                                        \
    X(rank, other.n_dims = 1, false)                                                                                   \
    X(dim, dims[1] = 5, false)                                                                                         \
    X(nonfinite, other.nonfinite = PSD__NON_FINITE__REFUSE, false)                                                     \
    X(init_kind, init.kind = PSD__INIT_KIND__UNIFORM, false)                                                           \
    X(init_a, init.a = 1, false)                                                                                       \
    X(init_b, init.b = 1, false)                                                                                       \
    X(init_seed, init.seed = 8, false)                                                                                 \
    X(optimizer_kind, optimizer.kind = PS_ADAGRAD, false)                                                              \
    X(learning_rate, optimizer.learning_rate = 0.0010000000000000002, false)                                           \
    X(beta1, optimizer.beta1 = 0.8, false)                                                                             \
    X(beta2, optimizer.beta2 = 0.8, false)                                                                             \
    X(epsilon, optimizer.epsilon = 0.8, false)                                                                         \
    X(unused_momentum, optimizer.momentum = 0.8, true)                                                                 \
    X(unused_start, optimizer.initial_accumulator = 0.8, true)                                                         \
    X(unused_rho, optimizer.rho = 0.8, true)                                                                           \
    X(l2, optimizer.l2 = 0.1, false)                                                                                   \
    X(weight_decay, optimizer.weight_decay = 0.1, false)                                                               \
    X(schedule_that_changes_nothing, optimizer.schedule = &schedule, true)                                             \
    X(unused_steps, (optimizer.schedule = &schedule, schedule.steps = 7, schedule.factor = 0.5), true)                 \
    X(warmup, (optimizer.schedule = &schedule, schedule.warmup_steps = 5), false)                                      \
    X(cosine,                                                                                                          \
      (optimizer.schedule = &schedule, schedule.steps = 5, schedule.kind = PSD__SCHEDULE_KIND__SCHEDULE_COSINE),       \
      false)                                                                                                           \
    X(clip_that_does_nothing, (optimizer.clip = &clip, clip.limit = 5), true)                                          \
    X(clip, (optimizer.clip = &clip, clip.kind = PSD__CLIP_KIND__CLIP_VALUE, clip.limit = 5), false)

/* A MISMATCH always shows a difference. */
#define CHANGE_CHECK(what, change, same)                                                                               \
    {                                                                                                                  \
        Psd__Declare other = m.declare;                                                                                \
        Psd__Initializer init = m.init;                                                                                \
        Psd__Optimizer optimizer = m.optimizer;                                                                        \
        Psd__Schedule schedule = PSD__SCHEDULE__INIT;                                                                  \
        Psd__Clip clip = PSD__CLIP__INIT;                                                                              \
        uint64_t dims[2] = {3, 4};                                                                                     \
                                                                                                                       \
        other.init = &init;                                                                                            \
        other.optimizer = &optimizer;                                                                                  \
        other.dims = dims;                                                                                             \
        change;                                                                                                        \
        (void)schedule, (void)clip;                                                                                    \
        ck_assert_msg(wire_declare_equal(&m.declare, &other) == (same), #what);                                        \
        ck_assert_msg((wire_differences(&other)[0] == '\0') == (same), "%s: %s", #what, wire_differences(&other));     \
    }

START_TEST(declarations_are_equal_when_what_they_use_is){CHANGE_LIST(CHANGE_CHECK)} END_TEST

#define JOB_LIST(X)                                                                                                    \
    X(nothing, (void)0, true)                                                                                          \
    X(mode, other.mode = PSD__MODE__ASYNC, false)                                                                      \
    X(workers, other.workers = 5, false)                                                                               \
    X(quorum, other.quorum = 4, false)                                                                                 \
    X(unused_bound, other.bound = 4, true)                                                                             \
    X(lapse, other.lapse = PSD__LAPSE__SHRINK, false)                                                                  \
    X(age_kind, age.kind = PSD__AGE_KIND__AGE_CUTOFF, false)                                                           \
    X(age_parameter, age.parameter = 0.8, false)

#define JOB_CHECK(what, change, same)                                                                                  \
    {                                                                                                                  \
        Psd__Job other = m.job;                                                                                        \
        Psd__AgePolicy age = m.age;                                                                                    \
        char text[512];                                                                                                \
                                                                                                                       \
        other.age = &age;                                                                                              \
        change;                                                                                                        \
        ck_assert_msg(wire_job_equal(&m.job, &other) == (same), #what);                                                \
        wire_job_differences(&m.job, &other, text, sizeof text);                                                       \
        ck_assert_msg((text[0] == '\0') == (same), "%s: %s", #what, text);                                             \
    }

    START_TEST(jobs_are_equal_when_what_they_use_is)
{
    Psd__Job other = m.job;
    char out[200];

    JOB_LIST(JOB_CHECK)
    other.name = (char *)"other";
    ck_assert(!wire_job_equal(&m.job, &other));
    other.workers = 1;
    other.mode = PSD__MODE__ASYNC;
    other.lapse = PSD__LAPSE__SHRINK;
    wire_job_differences(&m.job, &other, out, sizeof out);
    ck_assert_str_eq(out, "mode sync(3 of 4), not async, 1 worker; lapse fail, not shrink");
    wire_job_options(&m.job, out, sizeof out);
    ck_assert_str_eq(out, "sync(3 of 4), lapse fail, age exponential(0.9)");
    m.job.mode = PSD__MODE__SSP;
    m.job.bound = 2;
    m.age.kind = PSD__AGE_KIND__AGE_NONE;
    m.job.lapse = PSD__LAPSE__SHRINK;
    wire_job_options(&m.job, out, sizeof out);
    ck_assert_str_eq(out, "ssp(bound 2), 4 workers, lapse shrink, age none");
    m.job.mode = PSD__MODE__ASYNC;
    wire_job_options(&m.job, out, sizeof out);
    ck_assert_str_eq(out, "async, 4 workers, lapse shrink, age none");
}
END_TEST

static TCase *
make_case(const char *name)
{
    TCase *t = tcase_create(name);

    tcase_add_checked_fixture(t, wire_setup, wire_teardown);
    tcase_set_timeout(t, 60);
    return t;
}

static Suite *
make_suite(void)
{
    Suite *s = suite_create("wire");
    TCase *codec = make_case("codec"), *checks = make_case("checks"), *definitions = make_case("definitions");

    tcase_add_loop_test(codec, every_message_comes_back_as_it_was, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_loop_test(codec, a_message_of_defaults_is_refused_or_filled_in, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_test(codec, parts_that_were_left_out_are_filled_in);
    tcase_add_loop_test(codec, only_messages_with_blocks_may_carry_a_payload, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_loop_test(codec, what_is_answered_has_a_request_id, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_test(codec, an_unknown_type_is_refused);
    tcase_add_test(codec, a_small_message_cannot_unpack_to_much);
    tcase_add_loop_test(codec, a_message_cut_anywhere_is_no_harm, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_loop_test(codec, a_shaken_message_is_no_harm, MSG_NONE + 1, MSG_TYPE_MAX);
    tcase_add_loop_test(codec, a_byte_0_in_any_text_is_refused, MSG_NONE + 1, MSG_TYPE_MAX);
    suite_add_tcase(s, codec);
    tcase_add_loop_test(checks, a_bad_field_is_refused_and_named, 0, ARRAY_LEN(bads));
    tcase_add_test(checks, the_limits_themselves_are_allowed);
    tcase_add_test(checks, the_largest_push_fits_a_frame);
    tcase_add_test(checks, sentences_are_made_clean);
    tcase_add_test(checks, codes_of_a_newer_peer_become_internal);
    suite_add_tcase(s, checks);
    tcase_add_loop_test(definitions, text_is_utf8_without_control_characters, 0, ARRAY_LEN(texts));
    tcase_add_test(definitions, elements_are_the_product_of_the_dimensions);
    tcase_add_test(definitions, a_mismatch_names_what_differs_with_both_values);
    tcase_add_test(definitions, declarations_are_equal_when_what_they_use_is);
    tcase_add_test(definitions, jobs_are_equal_when_what_they_use_is);
    suite_add_tcase(s, definitions);
    return s;
}

CHECK_MAIN(make_suite)
