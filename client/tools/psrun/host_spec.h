/* A machine as lists of them name it, and how ssh is asked to run something there. Pure: nothing is looked up.
 *
 *     "hostb"   "ada@hostb"   "10.0.0.7"   "[fe80::1]"        in --hosts
 *     "hostb:2222"            "ada@[fe80::1]:2222"            in --ps-hosts, --worker-hosts and TF_CONFIG */
#ifndef CLIENT_TOOLS_PSRUN_HOST_SPEC_H
#define CLIENT_TOOLS_PSRUN_HOST_SPEC_H

#include "client/tools/shared/strlist.h"
#include "common/core/cluster/address.h"
#include "common/include/psclient/ps_err.h"

struct host_spec {
    char login[512]; /* as ssh takes it: "ada@hostb", "fe80::1" */
    char name[256];  /* as addresses have it: "hostb", "fe80::1" */
    uint16_t port;   /* 0: none was given, or any */
};

/* place names the text in errors: "--hosts[1]". PS_ERR_INVALID for a text that is no host, or that ssh or a shell could
 * misread. */
enum ps_err host_spec_parse(const char *place, const char *text, struct host_spec *out, struct ps_error *e) PS_MUST_USE;
enum ps_err host_spec_parse_address(const char *place, const char *text, struct host_spec *out,
                                    struct ps_error *e) PS_MUST_USE;

/* "hostb:2222", "[fe80::1]:2222". */
void host_spec_address(const char *name, uint16_t port, char out[ADDRESS_MAX]);

/* It is this machine, whose own name is `own`: that name, with or without its domain, or a name of loopback. */
bool host_spec_is_here(const char *name, const char *own);

/* Other machines cannot reach it by this name: localhost, 127.0.0.0/8, ::1. */
bool host_spec_is_loopback(const char *name);

/* Append `text` to *out so that a shell takes it as one word, whatever bytes it has. */
void host_spec_quote(const char *text, struct strlist *out);

struct host_spec_ssh {
    const char *command; /* "ssh", with options if need be; a shell takes it apart */
    int64_t connect_ms, silence_ms;
    const char *login, *psrun; /* what to run there: psrun's own path, or its name in the PATH there */
};

/* argv that runs `psrun @remote` there. No terminal, no questions, no forwarding, no connection shared with others; a
 * network that went silent is noticed. Options in `command` come first, and ssh takes the first: they win. */
void host_spec_ssh_argv(const struct host_spec_ssh *ssh, struct strlist *out);

#endif
