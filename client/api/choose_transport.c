#include "client/api/choose_transport.h"

#include <stdlib.h>
#include <string.h>

enum ps_err
choose_transport(enum ps_transport *transport, struct ps_error *e)
{
    const char *text = getenv("PSD_TRANSPORT");

    if (*transport != PS_TRANSPORT_AUTO || text == NULL || strcmp(text, "auto") == 0)
        return PS_OK;
    if (strcmp(text, "tcp") != 0)
        return ps_fail(e, PS_ERR_CONFIG, "PSD_TRANSPORT is '%.40s'; it may be auto or tcp", text);
    *transport = PS_TRANSPORT_TCP;
    return PS_OK;
}
