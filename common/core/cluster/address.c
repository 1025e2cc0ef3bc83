#include "common/core/cluster/address.h"

#include <string.h>

#define ADDRESS_FORMS "expected host:port, [v6]:port or unix:/path"

static enum ps_err
address_parse_unix(const char *text, struct address *out, struct ps_error *e)
{
    const char *path = text + strlen("unix:");
    size_t len = strlen(path);

    if (len == 0)
        return ps_fail(e, PS_ERR_INVALID, "'%s' names no path after unix:", text);
    if (len >= sizeof out->path)
        return ps_fail(e, PS_ERR_INVALID, "'%s': the path of a Unix socket may have %zu bytes, this has %zu", text,
                       sizeof out->path - 1, len);
    out->is_unix = true;
    memcpy(out->path, path, len + 1);
    return PS_OK;
}

/* Decimal, at most five digits, at most 65535. */
static bool
address_port(const char *text, uint16_t *out)
{
    unsigned long value = 0;
    size_t len = strlen(text);

    if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
        return false;
    for (; *text != '\0'; text++)
        value = value * 10 + (unsigned long)(*text - '0');
    *out = (uint16_t)value;
    return value <= UINT16_MAX;
}

/* The host's first byte and length, and the port's text; NULL port when the form is none of ours. */
static const char *
address_split(const char *text, const char **host, size_t *len)
{
    const char *end;

    if (text[0] == '[') {
        end = strchr(text, ']');
        if (end == NULL || end[1] != ':')
            return NULL;
        *host = text + 1;
        *len = (size_t)(end - *host);
        return end + 2;
    }
    /* A bare v6 address has several colons and no way to tell its port. */
    end = strchr(text, ':');
    if (end == NULL || strchr(end + 1, ':') != NULL)
        return NULL;
    *host = text;
    *len = (size_t)(end - text);
    return end + 1;
}

/* Printable, without blanks and what would need quoting in a list. */
static bool
address_host_ok(const char *host, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (host[i] <= ' ' || host[i] >= 0x7f || strchr(",/[]\"'\\", host[i]) != NULL)
            return false;
    return true;
}

enum ps_err
address_parse(const char *text, struct address *out, struct ps_error *e)
{
    const char *host, *port;
    size_t len;

    *out = (struct address){0};
    if (strlen(text) >= ADDRESS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "the address '%.32s...' is longer than %d bytes", text, ADDRESS_MAX - 1);
    if (strncmp(text, "unix:", 5) == 0)
        return address_parse_unix(text, out, e);
    if (text[strcspn(text, " \t\r\n")] != '\0')
        return ps_fail(e, PS_ERR_INVALID, "'%s' has a blank in it: " ADDRESS_FORMS ", several with commas between",
                       text);
    if ((port = address_split(text, &host, &len)) == NULL)
        return ps_fail(e, PS_ERR_INVALID, "'%s' is not an address: " ADDRESS_FORMS, text);
    if (len == 0)
        return ps_fail(e, PS_ERR_INVALID, "'%s' names no host: " ADDRESS_FORMS, text);
    if (len >= sizeof out->host || !address_host_ok(host, len))
        return ps_fail(e, PS_ERR_INVALID, "'%s': the host is not valid: " ADDRESS_FORMS, text);
    if (!address_port(port, &out->port))
        return ps_fail(e, PS_ERR_INVALID, "'%s': the port must be a number from 0 to 65535", text);
    memcpy(out->host, host, len);
    return PS_OK;
}

/* ---- Numbers ---- */

/* Four numbers up to 255, without zeros before them. */
static bool
address_is_v4(const char *s)
{
    for (int part = 0; part < 4; part++) {
        size_t digits = strspn(s, "0123456789");
        int value = 0;

        if (digits < 1 || digits > 3 || (s[0] == '0' && digits > 1))
            return false;
        for (size_t i = 0; i < digits; i++)
            value = 10 * value + (s[i] - '0');
        s += digits;
        if (value > 255 || *s != (part < 3 ? '.' : '\0'))
            return false;
        s++;
    }
    return true;
}

/* Eight groups, the last two perhaps as an IPv4 number; "::" once, for one group or more (RFC 4291, 2.2). */
static bool
address_is_v6(const char *s)
{
    bool gap = strncmp(s, "::", 2) == 0;
    int groups = 0;

    if (gap && *(s += 2) == '\0')
        return true;
    for (;;) {
        size_t digits = strspn(s, "0123456789abcdefABCDEF");

        if (s[digits] == '.' && address_is_v4(s))
            return groups + 2 <= (gap ? 7 : 8) && (gap || groups + 2 == 8);
        if (digits < 1 || digits > 4 || ++groups > 8)
            return false;
        s += digits;
        if (*s == '\0')
            return gap ? groups <= 7 : groups == 8;
        if (*s++ != ':' || *s == '\0')
            return false;
        if (*s != ':')
            continue;
        if (gap)
            return false;
        gap = true;
        if (*++s == '\0')
            return groups <= 7;
    }
}

bool
address_is_number(const char *host)
{
    return address_is_v4(host) || address_is_v6(host);
}
