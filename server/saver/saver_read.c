/* How the thread copies what lies in the live store.
 *
 * Who holds a value holds every page that is freed meanwhile. A thread that is not scheduled in the midst of a copy
 * would make the live file grow by all that is written until it is, and for good: 100 ms at 1 GB/s are 100 MB. So
 * nothing is held while more than a page is copied:
 *
 *     hold ──► the head is copied ──► done ──► the rest is copied ──► hold: is it there, with that head? ──► done
 *                                                                        └── no: copied anew, and held
 *
 * It is there, since a save's values stay until they are passed (save.h) and pieces until they are on disk. What a save
 * that was given up had left may go, and pieces that are given up: their pages stay mapped, whatever is in them, and
 * the second look tells, for a value that took the same place has a newer version. */
#include <string.h>

#include "server/saver/saver_state.h"

enum { HEAD = sizeof(struct block_head) };

static enum ps_err
saver_read_hold(struct saver *s, const struct store_key *key, struct span *value)
{
    enum ps_err err = s->config.live->ops->reader_get(s->reader, key, value);

    ps_assert(err != PS_OK || (value->len >= HEAD && value->len <= sizeof s->value));
    return err;
}

static void
saver_read_release(struct saver *s)
{
    s->config.live->ops->reader_done(s->reader);
}

static void
saver_read_copy(struct saver *s, struct span value, size_t from, size_t to)
{
    memcpy(s->value + from, (const uint8_t *)value.data + from, to - from);
}

enum ps_err
saver_read_head(struct saver *s, const struct store_key *key, struct span *value)
{
    enum ps_err err = saver_read_hold(s, key, value);

    if (err == PS_OK)
        saver_read_copy(s, *value, 0, HEAD);
    saver_read_release(s);
    value->data = s->value;
    return err;
}

/* Unheld. *whole: it is the value; else it is none, or that of somebody else. */
static enum ps_err
copy_unheld(struct saver *s, const struct store_key *key, struct span *value, bool *whole)
{
    struct span first = *value;
    enum ps_err err;

    saver_read_copy(s, first, 0, HEAD);
    saver_read_release(s);
    saver_read_copy(s, first, HEAD, first.len);
    err = saver_read_hold(s, key, value);
    *whole = err == PS_OK && value->data == first.data && memcmp(s->value, value->data, HEAD) == 0;
    return err;
}

enum ps_err
saver_read(struct saver *s, const struct store_key *key, struct span *value)
{
    enum ps_err err = saver_read_hold(s, key, value);
    bool whole = false;

    if (err == PS_OK && value->len > LAYOUT_PAGE)
        err = copy_unheld(s, key, value, &whole);
    if (err == PS_OK && !whole)
        saver_read_copy(s, *value, 0, value->len);
    saver_read_release(s);
    value->data = s->value;
    return err;
}
