#include "client/api/choose_transport.h"

#include <stdlib.h>

#include "common/system/environment.h"

enum ps_err
choose_transport(enum ps_transport *transport, struct ps_error *e)
{
    if (*transport != PS_TRANSPORT_AUTO || !environment_has("PSD_TRANSPORT") || environment_is("PSD_TRANSPORT", "auto"))
        return PS_OK;
    if (!environment_is("PSD_TRANSPORT", "tcp"))
        return ps_fail(e, PS_ERR_CONFIG, "PSD_TRANSPORT is '%.40s'; it may be auto or tcp", getenv("PSD_TRANSPORT"));
    *transport = PS_TRANSPORT_TCP;
    return PS_OK;
}
