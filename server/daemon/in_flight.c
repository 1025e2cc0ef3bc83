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

static bool
in_flight_fits(const struct in_flight *f, const struct in_flight_part *p, uint64_t len)
{
    if (f->incoming == 0)
        return true;
    if (p->incoming + p->outgoing + len > f->part_max && p->incoming + p->outgoing > 0)
        return false;
    return in_flight_bytes(f) + len <= f->max;
}

static void
in_flight_enter(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->incoming += len;
    f->incoming += len;
}

bool
in_flight_admit(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->wanted == 0);
    /* Payloads that wait come first, or a stream of small ones would keep a large one waiting for ever. */
    if (f->first == NULL && in_flight_fits(f, p, len)) {
        in_flight_enter(f, p, len);
        return true;
    }
    if (len == 0)
        return true;
    if (p->incoming + p->outgoing + len > f->part_max)
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

/* In order of arrival; a payload that waits for its own connection's answers may be overtaken. */
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
        if (in_flight_bytes(f) + len > f->max)
            break;
    }
    return NULL;
}

void
in_flight_queue(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    p->outgoing += len;
    f->outgoing += len;
}

void
in_flight_sent(struct in_flight *f, struct in_flight_part *p, uint64_t len)
{
    ps_assert(p->outgoing >= len && f->outgoing >= len);
    p->outgoing -= len;
    f->outgoing -= len;
}

bool
in_flight_stuffed(const struct in_flight *f, const struct in_flight_part *p)
{
    return p->outgoing > f->part_max || (in_flight_bytes(f) > f->max && p->outgoing > f->part_max / 16);
}

void
in_flight_forget(struct in_flight *f, struct in_flight_part *p)
{
    if (p->wanted != 0)
        in_flight_unqueue(f, p);
    in_flight_leave(f, p, p->incoming);
}
