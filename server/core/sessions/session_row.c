/* Rows of sessions, by job and task. */
#include "server/core/sessions/session_row.h"

#include <endian.h>

#include "proto/store.pb-c.h"
#include "server/core/shard_state.h"

enum ps_err
session_row_put(struct shard *s, const struct session *session, row_sink sink)
{
    struct session_key key = {htobe32(session->job->id), htobe32(session->task)};
    Psd__SessionRow row = PSD__SESSION_ROW__INIT;
    struct tally_room metrics;
    Psd__Cursor at, step;
    uint64_t seqs[SHARD_ODD_MAX];
    uint32_t codes[SHARD_ODD_MAX];
    uint8_t bytes[2 * KIB + WIRE_SURVIVED_MAX];
    size_t len;

    for (uint32_t i = 0; i < session->odd_len; i++) {
        seqs[i] = session->odd[i].seq;
        codes[i] = (uint32_t)session->odd[i].code;
    }
    row.incarnation = session->incarnation;
    row.state = session->state;
    row.lease_ms = session->lease_ms;
    row.clock = session->clock;
    row.last_seq = PLANTED(WAITING_IS_DONE) ? session->next_seq - 1 : session->last_seq;
    row.last_tick = session->last_tick;
    row.last_barrier = session->last_barrier;
    row.acked_through = session->acked_through;
    row.n_odd_seq = row.n_odd_code = PLANTED(REFUSAL_NOT_KEPT) ? 0 : session->odd_len;
    row.odd_seq = seqs;
    row.odd_code = codes;
    row.odd_lost = session->odd_lost;
    row.agent = session->agent;
    row.held = session->held;
    row.joined_past = session->joined_past;
    row.round = session->round;
    row.late = session->late;
    row.evicted = session->evicted && !PLANTED(EVICTION_NOT_KEPT);
    row.redo = session->redo;
    row.pushes = session->pushes;
    row.boot = session->boot;
    row.ahead_from = session->ahead.from;
    row.ahead = (ProtobufCBinaryData){session->ahead.len, session->ahead.bits};
    row.cursor = cursor_message(session->steps.at, &at);
    row.cursor_step = cursor_message(session->steps.step, &step);
    row.metrics = PLANTED(SUMS_NOT_KEPT) ? NULL : tally_message(&session->tally, &metrics);
    len = psd__session_row__get_packed_size(&row);
    ps_assert(len <= sizeof bytes);
    psd__session_row__pack(&row, bytes);
    return sink(s, STORE_SESSIONS, (struct span){&key, sizeof key}, (struct span){bytes, len});
}

void
session_row_to_redo(struct shard *s, const struct session *session)
{
    if (s->redo.on && session_row_put(s, session, redo_row) != PS_OK)
        ps_assert(false);
}
