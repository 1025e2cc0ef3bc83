/* Rows of sessions, by job and task. */
#include "server/core/sessions/session_row.h"

#include <endian.h>

#include "common/core/auth/keyring.h"
#include "proto/store.pb-c.h"
#include "server/core/shard_state.h"

enum ps_err
session_row_put(struct shard *s, const struct session *session, row_sink sink)
{
    struct session_key key = {htobe32(session->job->id), htobe32(session->task)};
    Psd__SessionRow row = PSD__SESSION_ROW__INIT;
    struct worker_metrics_parts metrics;
    struct data_begin_message begin;
    Psd__Cursor at, step, ticked;
    uint64_t seqs[SHARD_OUTCOMES_MAX];
    uint32_t codes[SHARD_OUTCOMES_MAX];
    uint8_t bytes[2 * KIB + KEYRING_NAME_MAX + WIRE_SURVIVED_MAX];
    size_t len;

    for (uint32_t i = 0; i < session->outcomes_len; i++) {
        seqs[i] = session->outcomes[i].seq;
        codes[i] = (uint32_t)session->outcomes[i].code;
    }
    row.incarnation = session->incarnation;
    row.state = session->state;
    row.lease_ms = session->lease_ms;
    row.clock = session->clock;
    row.last_seq = MUTATION(WAITING_IS_DONE) ? session->next_seq - 1 : session->last_seq;
    row.last_tick = session->last_tick;
    row.last_barrier = session->last_barrier;
    row.acked_through = session->acked_through;
    row.n_odd_seq = row.n_odd_code = MUTATION(REFUSAL_NOT_KEPT) ? 0 : session->outcomes_len;
    row.odd_seq = seqs;
    row.odd_code = codes;
    row.odd_lost = session->outcomes_lost_to;
    row.agent = session->agent;
    if (!MUTATION(HOLDER_NOT_KEPT))
        row.token = (char *)(uintptr_t)quota_name(session->holder);
    row.held = session->held_clock;
    row.joined_past = session->joined_past;
    row.round = session->round;
    row.rounds_behind = session->round - session->known_round;
    row.late = session->late;
    row.evicted = session->evicted && !MUTATION(EVICTION_NOT_KEPT);
    row.defined = session->defined;
    row.dropped = session->dropped;
    row.redo = session->redo;
    row.pushes = session->pushes;
    row.boot = session->boot;
    row.assigned = session->assigned;
    row.ahead_from = session->resolved_ahead.from;
    row.ahead = (ProtobufCBinaryData){session->resolved_ahead.len, session->resolved_ahead.bits};
    row.cursor = data_cursor_message(session->steps.at, &at);
    row.cursor_step = data_cursor_message(session->steps.step, &step);
    row.cursor_ticked = data_cursor_message(session->steps.ticked, &ticked);
    row.begins = data_begin_message(&session->begin, &begin);
    row.metrics = MUTATION(SUMS_NOT_KEPT) ? NULL : worker_metrics_message(&session->metrics, &metrics);
    len = psd__session_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__session_row__pack(&row, bytes);
    return sink(s, STORE_SESSIONS, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

enum ps_err
session_row_erase(struct shard *s, uint32_t job_id, uint32_t task)
{
    struct session_key key = {htobe32(job_id), htobe32(task)};

    return s->store->ops->row_erase(s->store, STORE_SESSIONS, (struct span){&key, sizeof key});
}

void
session_row_to_redo(struct shard *s, const struct session *session)
{
    if (s->redo.on && session_row_put(s, session, redo_row) != PS_OK)
        ps_assert(false);
}
