/* The thread copies values of the live store.
 *
 * A thread that holds a value keeps every page that is freed meanwhile. If it were not scheduled in the middle of a
 * copy, the live file would grow by all that is written until it runs again, and stay so: 100 ms at 1 GB/s are 100 MB.
 * So nothing is held while more than a page is copied:
 *
 *     hold ──► the head is copied ──► done ──► the rest is copied ──► hold: is it there, with that head? ──► done
 *                                                                        └── no: copied again, and held
 *
 * The value is there, since a save's values stay until they are passed (save.h) and pieces until they are on disk.
 * Values of a save that was given up may be removed, and pieces that are given up: their pages stay mapped, whatever is
 * in them, and the second check finds it, since a value that took the same place has a newer version. */
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

/* Copies without holding. *whole: it is the value; else the bytes are of another one, or of none. */
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
