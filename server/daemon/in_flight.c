#include "server/daemon/in_flight.h"

void
in_flight_init(struct in_flight *f, uint64_t max, uint64_t part_max)
{
    *f = (struct in_flight){.max = max, .part_max = part_max};
    f->end = &f->first;
}

uint64_t
in_flight_bytes(const struct in_flight *f)
{
    return f->incoming + f->outgoing + f->other;
}

/* ---- Shares ---- */

/* outgoing: how much of len is answers. */
static void
in_flight_share_add(struct in_flight_share *s, uint64_t len, uint64_t outgoing)
{
    s->bytes += len;
    s->outgoing += outgoing;
}

static void
in_flight_share_subtract(struct in_flight_share *s, uint64_t len, uint64_t outgoing)
{
    ps_assert(s->bytes >= len && s->outgoing >= outgoing);
    s->bytes -= len;
    s->outgoing -= outgoing;
}

static void
in_flight_shares_add(struct in_flight_part *p, uint64_t len, uint64_t outgoing)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (p->shares[i] != NULL)
            in_flight_share_add(p->shares[i], len, outgoing);
}

static void
in_flight_shares_subtract(struct in_flight_part *p, uint64_t len, uint64_t outgoing)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (p->shares[i] != NULL)
            in_flight_share_subtract(p->shares[i], len, outgoing);
}

/* len more would be too much for it; the first frame of a share never is. */
static bool
in_flight_share_full(const struct in_flight *f, const struct in_flight_share *s, uint64_t len)
{
    return s != NULL && s->eighths != 0 && s->bytes > 0 && s->bytes + len > f->max / 8 * s->eighths;
}

static bool
in_flight_shares_full(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (in_flight_share_full(f, p->shares[i], len))
            return true;
    return false;
}

void
in_flight_assign(struct in_flight_part *p, enum in_flight_share_kind kind, struct in_flight_share *share)
{
    uint64_t bytes = p->incoming + p->outgoing;

    if (p->shares[kind] != NULL)
        in_flight_share_subtract(p->shares[kind], bytes, p->outgoing);
    p->shares[kind] = share;
    if (share != NULL)
        in_flight_share_add(share, bytes, p->outgoing);
}

/* ---- What may come in, or be made ---- */

/* What the connection itself may hold: no more than half of what its identity may, so that one that fetches nothing
 * leaves room to the others. */
static uint64_t
in_flight_part_cap(const struct in_flight *f, const struct in_flight_part *p)
{
    const struct in_flight_share *s = p->shares[IN_FLIGHT_IDENTITY];

    return s != NULL && s->eighths != 0 ? MIN(f->part_max, f->max / 16 * s->eighths) : f->part_max;
}

/* A frame of this connection would have to wait for what the connection itself holds. */
static bool
in_flight_part_full(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    uint64_t own = p->incoming + p->outgoing;

    return own > 0 && own + len > in_flight_part_cap(f, p);
}

/* It would have to wait for what itself, or its shares, hold. */
static bool
in_flight_own_full(const struct in_flight *f, const struct in_flight_part *p, enum in_flight_kind kind, uint64_t len)
{
    return (kind == IN_FLIGHT_FRAME && in_flight_part_full(f, p, len)) || in_flight_shares_full(f, p, len);
}

/* Its identity holds next to nothing: it gets on, one frame at a time, whatever others hold. */
static bool
in_flight_is_poor(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    const struct in_flight_share *s = p->shares[IN_FLIGHT_IDENTITY];

    return s != NULL && s->bytes <= IN_FLIGHT_STUFFED && in_flight_bytes(f) + len <= f->max + IN_FLIGHT_BEYOND;
}

/* It may come in, or be made, past those that wait. */
static bool
in_flight_passes(const struct in_flight *f, const struct in_flight_part *p, enum in_flight_kind kind, uint64_t len)
{
    return (kind == IN_FLIGHT_FRAME ? f->incoming : f->values) == 0 || in_flight_is_poor(f, p, len);
}

static bool
in_flight_fits(const struct in_flight *f, const struct in_flight_part *p, enum in_flight_kind kind, uint64_t len)
{
    return !in_flight_own_full(f, p, kind, len) && in_flight_bytes(f) + len <= f->max;
}

/* ---- The queue ---- */

static void
in_flight_enqueue(struct in_flight *f, struct in_flight_part *p, enum in_flight_kind kind, uint64_t len)
{
    struct in_flight_wait *w = &p->waits[kind];

    if (in_flight_own_full(f, p, kind, len))
        f->part_waits++;
    else
        f->waits++;
    *w = (struct in_flight_wait){.part = p, .kind = kind, .wanted = len};
    *f->end = w;
    f->end = &w->next;
}

static void
in_flight_unqueue(struct in_flight *f, struct in_flight_wait *w)
{
    struct in_flight_wait **at = &f->first;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (f->end == &w->next)
        f->end = at;
    *w = (struct in_flight_wait){0};
}

/* Something waits for memory that others hold: that comes first, or a stream of small frames would keep a large one
 * waiting for ever. */
static bool
in_flight_is_awaited(const struct in_flight *f)
{
    for (const struct in_flight_wait *w = f->first; w != NULL; w = w->next)
        if (!in_flight_own_full(f, w->part, w->kind, w->wanted))
            return true;
    return false;
}

static void
in_flight_enter(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->incoming += len;
    f->incoming += len;
    in_flight_shares_add(p, len, 0);
}

bool
in_flight_admit(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(!in_flight_waits(p, IN_FLIGHT_FRAME));
    if (in_flight_passes(f, p, IN_FLIGHT_FRAME, len) ||
        (in_flight_fits(f, p, IN_FLIGHT_FRAME, len) && !in_flight_is_awaited(f))) {
        in_flight_enter(f, p, len);
        return true;
    }
    if (len == 0)
        return true;
    in_flight_enqueue(f, p, IN_FLIGHT_FRAME, len);
    return false;
}

void
in_flight_leave(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->incoming >= len && f->incoming >= len);
    p->incoming -= len;
    f->incoming -= len;
    in_flight_shares_subtract(p, len, 0);
}

bool
in_flight_answer(struct in_flight *f, struct in_flight_part *p, uint64_t most)
{
    bool is_next = p->answer_is_next;

    p->answer_is_next = false;
    if (in_flight_waits(p, IN_FLIGHT_ANSWER))
        return false;
    if (in_flight_passes(f, p, IN_FLIGHT_ANSWER, most) ||
        (in_flight_fits(f, p, IN_FLIGHT_ANSWER, most) && (is_next || !in_flight_is_awaited(f))))
        return true;
    in_flight_enqueue(f, p, IN_FLIGHT_ANSWER, most);
    return false;
}

/* In order of arrival; what waits for its own connection, or for its share, may be overtaken, and what passes
 * overtakes. */
struct in_flight_part *
in_flight_next(struct in_flight *f, enum in_flight_kind *kind)
{
    bool blocked = false; /* one waits for what others hold */

    for (struct in_flight_wait *w = f->first; w != NULL; w = w->next) {
        struct in_flight_part *p = w->part;
        uint64_t len = w->wanted;

        *kind = w->kind;
        if (in_flight_passes(f, p, *kind, len) || (!blocked && in_flight_fits(f, p, *kind, len))) {
            in_flight_unqueue(f, w);
            if (*kind == IN_FLIGHT_FRAME)
                in_flight_enter(f, p, len);
            else
                p->answer_is_next = true;
            return p;
        }
        blocked = blocked || !in_flight_own_full(f, p, *kind, len);
    }
    return NULL;
}

/* ---- Who waits for whom ---- */

/* What p holds is among what w waits for. */
static bool
in_flight_waits_for(const struct in_flight *f, const struct in_flight_wait *w, const struct in_flight_part *p)
{
    if (w->part == p || (w->kind == IN_FLIGHT_FRAME && in_flight_part_full(f, w->part, w->wanted)))
        return false;
    for (int i = 0; i < IN_FLIGHT_SHARES; i++)
        if (in_flight_share_full(f, w->part->shares[i], w->wanted) && w->part->shares[i] != p->shares[i])
            return false;
    return true;
}

bool
in_flight_is_awaited_from(const struct in_flight *f, const struct in_flight_part *p)
{
    for (const struct in_flight_wait *w = f->first; w != NULL; w = w->next)
        if (in_flight_waits_for(f, w, p))
            return true;
    return false;
}

/* ---- Answers ---- */

void
in_flight_queue(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->outgoing += len;
    f->outgoing += len;
    in_flight_shares_add(p, len, len);
}

void
in_flight_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->outgoing >= len && f->outgoing >= len);
    p->outgoing -= len;
    f->outgoing -= len;
    in_flight_shares_subtract(p, len, len);
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
    for (int i = 0; i < IN_FLIGHT_KINDS; i++)
        if (in_flight_waits(p, i))
            in_flight_unqueue(f, &p->waits[i]);
    p->answer_is_next = false;
    in_flight_leave(f, p, p->incoming);
}
