#include "server/daemon/in_flight.h"

void
in_flight_init(struct in_flight *f, uint64_t max, uint64_t part_max)
{
    *f = (struct in_flight){.max = max, .part_max = part_max};
    f->end = &f->first;
    f->answer_end = &f->answer_first;
}

uint64_t
in_flight_bytes(const struct in_flight *f)
{
    return f->incoming + f->outgoing + f->other;
}

/* ---- Shares ---- */

static void
in_flight_shares_add(struct in_flight_part *p, uint64_t len)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (p->shares[i] != NULL)
            p->shares[i]->bytes += len;
}

static void
in_flight_shares_subtract(struct in_flight_part *p, uint64_t len)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (p->shares[i] != NULL) {
            ps_assert(p->shares[i]->bytes >= len);
            p->shares[i]->bytes -= len;
        }
}

/* len more would be too much for one of its shares; for the first frame of a share nothing is. */
static bool
in_flight_shares_full(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++) {
        const struct in_flight_share *s = p->shares[i];

        if (s != NULL && s->eighths != 0 && s->bytes > 0 && s->bytes + len > f->max / 8 * s->eighths)
            return true;
    }
    return false;
}

void
in_flight_assign(struct in_flight_part *p, enum in_flight_share_kind kind, struct in_flight_share *share)
{
    uint64_t bytes = p->incoming + p->outgoing;

    if (p->shares[kind] != NULL) {
        ps_assert(p->shares[kind]->bytes >= bytes);
        p->shares[kind]->bytes -= bytes;
    }
    p->shares[kind] = share;
    if (share != NULL)
        share->bytes += bytes;
}

/* ---- Frames ---- */

/* What the connection itself may hold: no more than half of what its identity may, so that one that fetches nothing
 * leaves room to the others. */
static uint64_t
in_flight_part_cap(const struct in_flight *f, const struct in_flight_part *p)
{
    const struct in_flight_share *s = p->shares[IN_FLIGHT_IDENTITY];

    return s != NULL && s->eighths != 0 ? MIN(f->part_max, f->max / 16 * s->eighths) : f->part_max;
}

/* It would have to wait for what itself, or its shares, hold. */
static bool
in_flight_own_full(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    uint64_t own = p->incoming + p->outgoing;

    return (own > 0 && own + len > in_flight_part_cap(f, p)) || in_flight_shares_full(f, p, len);
}

static bool
in_flight_fits(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    return f->incoming == 0 || (!in_flight_own_full(f, p, len) && in_flight_bytes(f) + len <= f->max);
}

static void
in_flight_enter(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->incoming += len;
    f->incoming += len;
    in_flight_shares_add(p, len);
}

/* Its identity holds next to nothing: it gets on, one frame at a time, whatever others hold. */
static bool
in_flight_is_poor(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    const struct in_flight_share *s = p->shares[IN_FLIGHT_IDENTITY];

    return s != NULL && s->bytes <= IN_FLIGHT_STUFFED && in_flight_bytes(f) + len <= f->max + IN_FLIGHT_BEYOND;
}

/* Some frame waits for memory that others hold: those come first, or a stream of small ones would keep a large one
 * waiting for ever. */
static bool
in_flight_is_awaited(const struct in_flight *f)
{
    for (const struct in_flight_part *p = f->first; p != NULL; p = p->next)
        if (!in_flight_own_full(f, p, p->wanted))
            return true;
    return false;
}

bool
in_flight_admit(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->wanted == 0);
    if ((in_flight_fits(f, p, len) && !in_flight_is_awaited(f)) || in_flight_is_poor(f, p, len)) {
        in_flight_enter(f, p, len);
        return true;
    }
    if (len == 0)
        return true;
    if (in_flight_own_full(f, p, len))
        f->part_waits++;
    else
        f->waits++;
    p->wanted = len;
    p->next = NULL;
    *f->end = p;
    f->end = &p->next;
    return false;
}

void
in_flight_leave(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->incoming >= len && f->incoming >= len);
    p->incoming -= len;
    f->incoming -= len;
    in_flight_shares_subtract(p, len);
}

static void
in_flight_unqueue(struct in_flight *f, struct in_flight_part *p)
{
    struct in_flight_part **at = &f->first;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (f->end == &p->next)
        f->end = at;
    p->next = NULL;
    p->wanted = 0;
}

/* In order of arrival; a frame that waits for its own connection's answers, or for its share, may be overtaken, and
 * those of an identity that holds nothing overtake. */
struct in_flight_part *
in_flight_next(struct in_flight *f)
{
    bool blocked = false; /* one waits for what others hold */

    for (struct in_flight_part *p = f->first; p != NULL; p = p->next) {
        uint64_t len = p->wanted;

        if ((!blocked && in_flight_fits(f, p, len)) || in_flight_is_poor(f, p, len)) {
            in_flight_unqueue(f, p);
            in_flight_enter(f, p, len);
            return p;
        }
        blocked = blocked || !in_flight_own_full(f, p, len);
    }
    return NULL;
}

/* ---- Answers ---- */

void
in_flight_queue(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->outgoing += len;
    f->outgoing += len;
    in_flight_shares_add(p, len);
}

void
in_flight_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->outgoing >= len && f->outgoing >= len);
    p->outgoing -= len;
    f->outgoing -= len;
    in_flight_shares_subtract(p, len);
}

bool
in_flight_stuffed(const struct in_flight *f, const struct in_flight_part *p)
{
    bool pressed = in_flight_bytes(f) > f->max || in_flight_shares_full(f, p, 1);

    return p->outgoing > in_flight_part_cap(f, p) ||
           (pressed && p->outgoing > MIN(f->part_max / 16, IN_FLIGHT_STUFFED));
}

bool
in_flight_over(const struct in_flight *f, uint64_t leaving)
{
    return in_flight_bytes(f) > f->max + 2 * IN_FLIGHT_BEYOND + leaving;
}

bool
in_flight_awaited(const struct in_flight *f)
{
    return f->first != NULL || f->answer_first != NULL;
}

bool
in_flight_awaited_by_others(const struct in_flight *f, const struct in_flight_part *p)
{
    return (f->first != NULL && (f->first != p || p->next != NULL)) ||
           (f->answer_first != NULL && (f->answer_first != p || p->answer_next != NULL));
}

/* ---- Answers with values ---- */

static bool
in_flight_answer_fits(const struct in_flight *f, const struct in_flight_part *p, uint64_t most)
{
    return f->values == 0 || in_flight_is_poor(f, p, most) ||
           (in_flight_bytes(f) + most <= f->max && !in_flight_shares_full(f, p, most));
}

bool
in_flight_answer(struct in_flight *f, struct in_flight_part *p, uint64_t most)
{
    if (p->answer_waits)
        return false;
    if (in_flight_answer_fits(f, p, most))
        return true;
    f->waits++;
    p->answer_waits = true;
    p->answer_most = most;
    p->answer_next = NULL;
    *f->answer_end = p;
    f->answer_end = &p->answer_next;
    return false;
}

static void
in_flight_answer_unqueue(struct in_flight *f, struct in_flight_part *p)
{
    struct in_flight_part **at = &f->answer_first;

    while (*at != p)
        at = &(*at)->answer_next;
    *at = p->answer_next;
    if (f->answer_end == &p->answer_next)
        f->answer_end = at;
    p->answer_waits = false;
}

struct in_flight_part *
in_flight_next_answer(struct in_flight *f)
{
    for (struct in_flight_part *p = f->answer_first; p != NULL; p = p->answer_next)
        if (in_flight_answer_fits(f, p, p->answer_most)) {
            in_flight_answer_unqueue(f, p);
            return p;
        }
    return NULL;
}

void
in_flight_values(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    f->values += len;
    in_flight_queue(f, p, len);
}

void
in_flight_values_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(f->values >= len);
    f->values -= len;
    in_flight_sent(f, p, len);
}

/* ---- The end of a connection ---- */

void
in_flight_forget(struct in_flight *f, struct in_flight_part *p)
{
    if (p->wanted != 0)
        in_flight_unqueue(f, p);
    if (p->answer_waits)
        in_flight_answer_unqueue(f, p);
    in_flight_leave(f, p, p->incoming);
}
