#include "server/access/certificate.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "server/process/log.h"

#define DAY_S (UINT64_C(24) * 60 * 60)

void
certificate_read(struct certificate *c, const struct tls *t)
{
    snprintf(c->shows, sizeof c->shows, "%s", tls_shows(t));
    c->ends = tls_ends(t);
}

bool
certificate_warning(uint64_t ends, uint64_t now, char *out, size_t size)
{
    uint64_t left = ends - MIN(now, ends);

    if (ends == 0 || left >= CERTIFICATE_SOON_DAYS * DAY_S)
        return false;
    if (left == 0)
        snprintf(out, size, "has expired");
    else if (left <= DAY_S)
        snprintf(out, size, "ends within a day");
    else
        snprintf(out, size, "ends within %" PRIu64 " days", (left + DAY_S - 1) / DAY_S);
    return true;
}

void
certificate_watch(const struct certificate *c, const char *sockets)
{
    char text[64];

    if (certificate_warning(c->ends, (uint64_t)time(NULL), text, sizeof text))
        log_line(LOG_LEVEL_WARNING, "the certificate of %s %s: renew it, and send HUP certificate=\"%s\"", sockets,
                 text, c->shows);
}
