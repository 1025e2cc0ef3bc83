/* How frames travel, for programs that do not say it. */
#ifndef CLIENT_API_CHOOSE_TRANSPORT_H
#define CLIENT_API_CHOOSE_TRANSPORT_H

#include "client/include/psclient/ps_client.h"

/* AUTO becomes what PSD_TRANSPORT in the environment says. PS_ERR_CONFIG: that is neither auto nor tcp. */
enum ps_err choose_transport(enum ps_transport *transport, struct ps_error *e) PS_MUST_USE;

#endif
