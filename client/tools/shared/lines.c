#include "client/tools/shared/lines.h"

#include <stdlib.h>
#include <string.h>

void
lines_init(struct line_reader *l, lines_fn *fn, void *arg)
{
    *l = (struct line_reader){.fn = fn, .arg = arg};
}

void
lines_finish(struct line_reader *l)
{
    free(l->text);
    *l = (struct line_reader){0};
}

/* Bytes of the escape sequence at text (ESC and one byte, or ESC [ ... final byte), or 0. */
static size_t
lines_escape(const char *text, size_t len)
{
    size_t n = 2;

    if (len < 2 || text[0] != '\x1b')
        return len == 1 && text[0] == '\x1b';
    if (text[1] != '[')
        return 2;
    while (n < len && !(text[n] >= 0x40 && text[n] <= 0x7e))
        n++;
    return MIN(n + 1, len);
}

size_t
lines_cut(const char *text, size_t len, size_t columns, size_t *width)
{
    size_t at = 0, w = 0, skip;

    while (at < len) {
        if ((skip = lines_escape(text + at, len - at)) > 0) {
            at += skip;
            continue;
        }
        if (((unsigned char)text[at] & 0xc0) != 0x80 && (unsigned char)text[at] >= ' ') {
            if (w == columns)
                break;
            w++;
        }
        at++;
    }
    *width = w;
    return at;
}

static bool
lines_visible(const struct line_reader *l)
{
    size_t width;

    lines_cut(l->text, l->len, 1, &width);
    return width > 0;
}

static void
lines_clear(struct line_reader *l)
{
    l->len = 0;
    l->returned = false;
    l->changed = true;
}

static void
lines_whole(struct line_reader *l)
{
    l->fn(l->arg, LINES_WHOLE, l->text, l->len);
    lines_clear(l);
    l->rewriting = false;
    l->live = false;
}

static enum ps_err
lines_append(struct line_reader *l, char c)
{
    if (l->len == l->size) {
        size_t size = l->size > 0 ? l->size * 2 : 256;
        char *text = realloc(l->text, size);

        if (text == NULL)
            return PS_ERR_NOMEM;
        l->text = text;
        l->size = size;
    }
    l->text[l->len++] = c;
    l->changed = true;
    return PS_OK;
}

static enum ps_err
lines_take_byte(struct line_reader *l, char c)
{
    if (c == '\n') {
        lines_whole(l);
        return PS_OK;
    }
    if (c == '\r') {
        l->returned = true;
        return PS_OK;
    }
    if (l->returned) {
        lines_clear(l);
        l->rewriting = true;
    }
    if (l->len == LINES_MAX)
        lines_whole(l);
    return lines_append(l, c);
}

/* Show the current text, if it is to be drawn over. */
static void
lines_show(struct line_reader *l)
{
    bool visible = lines_visible(l);

    if (!l->changed || (!l->rewriting && !l->returned) || (!visible && !l->live))
        return;
    l->fn(l->arg, LINES_LIVE, l->text, visible ? l->len : 0);
    l->live = visible;
    l->changed = false;
}

enum ps_err
lines_take(struct line_reader *l, const char *bytes, size_t len)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < len; i++)
        err = lines_take_byte(l, bytes[i]);
    lines_show(l);
    return err;
}

void
lines_end(struct line_reader *l)
{
    if (lines_visible(l))
        lines_whole(l);
    else if (l->live)
        l->fn(l->arg, LINES_LIVE, l->text, 0);
    l->live = false;
}
