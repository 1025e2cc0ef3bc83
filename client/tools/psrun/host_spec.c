#include "client/tools/psrun/host_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/tools/psrun/remote.h"

#define HOST_LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define HOST_NAME_OK  HOST_LETTERS "._-:%" /* : and % are of IPv6: fe80::1%eth0 */
#define HOST_LOGIN_OK HOST_LETTERS "._-+"

/* ---- names ---- */

static bool
host_spec_word_ok(const char *text, size_t len, const char *allowed)
{
    return len > 0 && text[0] != '-' && strspn(text, allowed) >= len;
}

/* "user@" and what follows it; NULL when the user is none. */
static const char *
host_spec_after_user(const char *text)
{
    const char *at = strchr(text, '@');

    if (at == NULL)
        return text;
    return host_spec_word_ok(text, (size_t)(at - text), HOST_LOGIN_OK) ? at + 1 : NULL;
}

static enum ps_err
host_spec_fail(const char *place, const char *text, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_INVALID, "%s: '%.128s' names no host", place, text);
}

/* name: without brackets. user_len: of "user@" before it, in text. */
static enum ps_err
host_spec_set(const char *place, const char *text, size_t user_len, const char *name, size_t len, struct host_spec *out,
              struct ps_error *e)
{
    if (!host_spec_word_ok(name, len, HOST_NAME_OK) || len >= sizeof out->name || user_len + len >= sizeof out->login)
        return host_spec_fail(place, text, e);
    snprintf(out->name, sizeof out->name, "%.*s", (int)len, name);
    snprintf(out->login, sizeof out->login, "%.*s%s", (int)user_len, text, out->name);
    return PS_OK;
}

enum ps_err
host_spec_parse(const char *place, const char *text, struct host_spec *out, struct ps_error *e)
{
    const char *name = host_spec_after_user(text);
    size_t len, user_len;

    *out = (struct host_spec){0};
    if (name == NULL)
        return host_spec_fail(place, text, e);
    user_len = (size_t)(name - text);
    len = strlen(name);
    if (len > 2 && name[0] == '[' && name[len - 1] == ']') {
        name++;
        len -= 2;
    } else if (strchr(name, ':') != NULL && strchr(name, ':') == strrchr(name, ':')) {
        return ps_fail(e, PS_ERR_INVALID, "%s: '%.128s' has a port; --ps-hosts and --worker-hosts take those", place,
                       text);
    }
    return host_spec_set(place, text, user_len, name, len, out, e);
}

enum ps_err
host_spec_parse_address(const char *place, const char *text, struct host_spec *out, struct ps_error *e)
{
    const char *rest = host_spec_after_user(text);
    struct address address;
    struct ps_error why;

    *out = (struct host_spec){0};
    if (rest == NULL)
        return host_spec_fail(place, text, e);
    if (address_parse(rest, &address, &why) != PS_OK)
        return ps_fail(e, PS_ERR_INVALID, "%s: %s", place, why.text);
    if (address.is_unix)
        return ps_fail(e, PS_ERR_INVALID, "%s: '%.128s' is a Unix socket, which no other machine reaches", place, text);
    out->port = address.port;
    return host_spec_set(place, text, (size_t)(rest - text), address.host, strlen(address.host), out, e);
}

void
host_spec_address(const char *name, uint16_t port, char out[ADDRESS_MAX])
{
    snprintf(out, ADDRESS_MAX, strchr(name, ':') != NULL ? "[%s]:%u" : "%s:%u", name, port);
}

bool
host_spec_is_loopback(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
}

bool
host_spec_is_here(const char *name, const char *own)
{
    size_t len = strcspn(own, ".");

    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0)
        return true;
    return *own != '\0' && (strcasecmp(name, own) == 0 || (strlen(name) == len && strncasecmp(name, own, len) == 0));
}

/* ---- ssh ---- */

/* Within '...' a shell takes every byte as it is, but for ' itself, which stands outside them behind a backslash. */
void
host_spec_quote(const char *text, struct strlist *out)
{
    char *quoted = strlist_alloc(NULL, strlen(text) * 4 + 3, 1), *at = quoted;

    *at++ = '\'';
    for (; *text != '\0'; text++)
        if (*text == '\'')
            at = stpcpy(at, "'\\''");
        else
            *at++ = *text;
    strcpy(at, "'");
    strlist_add(out, "%s", quoted);
    free(quoted);
}

/* Whole seconds, as ssh counts, at least one. */
static long long
host_spec_seconds(int64_t ms)
{
    return (long long)MAX((ms + 999) / 1000, INT64_C(1));
}

void
host_spec_ssh_argv(const struct host_spec_ssh *ssh, struct strlist *out)
{
    static const char *const options[] = {
        "BatchMode=yes",    "ClearAllForwardings=yes", "ForwardX11=no",         "ForwardAgent=no",  "ControlMaster=no",
        "ControlPath=none", "EscapeChar=none",         "PermitLocalCommand=no", "TCPKeepAlive=yes", "RequestTTY=no"};
    struct strlist psrun = {0};

    strlist_add(out, "sh");
    strlist_add(out, "-c");
    strlist_add(out, "exec %s \"$@\"", ssh->command);
    strlist_add(out, "ssh");
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        strlist_add(out, "-o");
        strlist_add(out, "%s", options[i]);
    }
    strlist_add(out, "-o");
    strlist_add(out, "ConnectTimeout=%lld", host_spec_seconds(ssh->connect_ms));
    strlist_add(out, "-o");
    strlist_add(out, "ServerAliveInterval=%lld", host_spec_seconds(ssh->silence_ms / REMOTE_BEATS));
    strlist_add(out, "-o");
    strlist_add(out, "ServerAliveCountMax=%d", REMOTE_BEATS);
    strlist_add(out, "%s", ssh->login);
    host_spec_quote(ssh->psrun, &psrun);
    strlist_add(out, "exec %s " REMOTE_ARG, psrun.text[0]);
    strlist_free(&psrun);
}
