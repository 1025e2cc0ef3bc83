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
    return f->incoming + f->outgoing;
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

/* It would have to wait for what itself, or its shares, hold. */
static bool
in_flight_own_full(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    uint64_t own = p->incoming + p->outgoing;

    return (own > 0 && own + len > f->part_max) || in_flight_shares_full(f, p, len);
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
    if (in_flight_fits(f, p, len) && !in_flight_is_awaited(f)) {
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

/* In order of arrival; a frame that waits for its own connection's answers, or for its share, may be overtaken. */
struct in_flight_part *
in_flight_next(struct in_flight *f)
{
    for (struct in_flight_part *p = f->first; p != NULL; p = p->next) {
        uint64_t len = p->wanted;

        if (in_flight_fits(f, p, len)) {
            in_flight_unqueue(f, p);
            in_flight_enter(f, p, len);
            return p;
        }
        if (!in_flight_own_full(f, p, len))
            break;
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
    return p->outgoing > f->part_max ||
           ((in_flight_bytes(f) > f->max || in_flight_shares_full(f, p, 1)) && p->outgoing > f->part_max / 16);
}

void
in_flight_forget(struct in_flight *f, struct in_flight_part *p)
{
    if (p->wanted != 0)
        in_flight_unqueue(f, p);
    in_flight_leave(f, p, p->incoming);
}
