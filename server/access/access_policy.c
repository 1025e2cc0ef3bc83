#include "server/access/access_policy.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/comma_list.h"
#include "common/net/sockname.h"
#include "server/access/keyring_file.h"

/* ---- --unix-users ---- */

/* text: a user's number, or a name that this machine knows. */
static enum ps_err
find_user(const char *name, uid_t *uid, struct ps_error *e)
{
    unsigned long number;
    struct passwd *user;
    char *end;

    errno = 0;
    number = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number < (uid_t)-1) {
        *uid = (uid_t)number;
        return PS_OK;
    }
    if ((user = getpwnam(name)) == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--unix-users: this machine has no user '%.64s'", name);
    *uid = user->pw_uid;
    return PS_OK;
}

/* "alice", "1001:read" */
static enum ps_err
add_user(struct access_policy *g, char *text, struct ps_error *e)
{
    struct access_policy_user user = {.role = ROLE_ADMIN};
    char *role = strchr(text, ':');
    enum ps_err err;

    if (role != NULL)
        *role++ = '\0';
    if (role != NULL && (user.role = role_of(role, strlen(role))) == ROLE_NONE)
        return ps_fail(e, PS_ERR_CONFIG, "--unix-users: the role of '%.64s' is none of read, train and admin", text);
    if ((err = find_user(text, &user.uid, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < g->users_len; i++)
        if (g->users[i].uid == user.uid)
            return ps_fail(e, PS_ERR_CONFIG, "--unix-users: '%.64s' is there twice", text);
    if (g->users_len == ACCESS_USERS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "--unix-users: more than %d users", ACCESS_USERS_MAX);
    g->users[g->users_len++] = user;
    return PS_OK;
}

static enum ps_err
take_users(struct access_policy *g, const char *list, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    size_t size;
    char *user;

    if (list == NULL)
        return PS_OK;
    size = strlen(list) + 1;
    if ((user = malloc(size)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    while (err == PS_OK && comma_list_next(&list, user, size))
        if (*user != '\0')
            err = add_user(g, user, e);
    if (err == PS_OK && g->users_len == 0)
        err = ps_fail(e, PS_ERR_CONFIG, "--unix-users: there is no user in it");
    free(user);
    return err;
}

/* ---- Life ---- */

enum ps_err
access_policy_open(struct access_policy *g, const struct options *o, struct ps_error *e)
{
    enum ps_err err;

    *g = (struct access_policy){.insecure = o->insecure, .client_ca = o->tls_cert != NULL && o->tls_client_ca != NULL};
    if ((err = keyring_file_read(&g->ring, o->tokens, e)) != PS_OK ||
        (err = http_tokens_read(&g->http, o->http_tokens, &g->ring, e)) != PS_OK ||
        (err = token_quotas_read(&g->quotas, o, &g->ring, e)) != PS_OK)
        return err;
    return take_users(g, o->unix_users, e);
}

void
access_policy_finish(struct access_policy *g)
{
    keyring_finish(&g->ring);
    access_attempts_finish(&g->attempts);
}

/* A reload must not admit connections that were refused before: sockets were checked when they began to listen. */
static enum ps_err
check_fresh(const struct access_policy *was, const struct access_policy *is, struct ps_error *e)
{
    if (was->ring.len > 0 && is->ring.len == 0)
        return ps_fail(e, PS_ERR_CONFIG, "there would be no tokens any more: that takes a restart");
    if (was->http.len > 0 && is->http.len == 0)
        return ps_fail(e, PS_ERR_CONFIG, "there would be no tokens of HTTP any more: that takes a restart");
    if (was->users_len > 0 && is->users_len == 0 && is->ring.len == 0)
        return ps_fail(
            e, PS_ERR_CONFIG,
            "without --unix-users and tokens every user who may open the Unix socket would be let in: that takes a "
            "restart");
    return PS_OK;
}

enum ps_err
access_policy_reload(struct access_policy *g, const struct options *o, access_policy_visit visit, void *arg,
                     struct ps_error *e)
{
    struct access_policy fresh;
    enum ps_err err = access_policy_open(&fresh, o, e);

    if (err != PS_OK || (err = check_fresh(g, &fresh, e)) != PS_OK) {
        access_policy_finish(&fresh);
        return err;
    }
    for (size_t i = 0; i < g->ring.len; i++) {
        const struct key *was = &g->ring.keys[i], *is = keyring_find(&fresh.ring, was->name);

        if (is == NULL || !key_equal(was, is))
            visit(arg, was);
    }
    keyring_finish(&g->ring);
    g->ring = fresh.ring;
    g->http = fresh.http;
    g->quotas = fresh.quotas;
    memcpy(g->users, fresh.users, sizeof g->users);
    g->users_len = fresh.users_len;
    return PS_OK;
}

/* ---- Decisions ---- */

bool
access_policy_authenticates(const struct access_policy *g)
{
    return g->ring.len > 0 || g->client_ca;
}

enum ps_err
access_policy_check_address(const struct access_policy *g, const struct sockaddr_storage *address, const char *text,
                            struct ps_error *e)
{
    if (access_policy_authenticates(g) || g->insecure || sockname_is_loopback((const struct sockaddr *)address))
        return PS_OK;
    return ps_fail(
        e, PS_ERR_CONFIG,
        "will not listen on %s, which other machines can reach, without authentication: give "
        "--tokens FILE (or PSD_TOKEN_FILE) or --tls-client-ca FILE, or listen on 127.0.0.1, or say --insecure where "
        "all who reach it "
        "are trusted",
        text);
}

enum ps_err
access_policy_check_http(const struct access_policy *g, const struct sockaddr_storage *address, const char *text,
                         struct ps_error *e)
{
    if (g->http.len > 0 || g->insecure || sockname_is_loopback((const struct sockaddr *)address))
        return PS_OK;
    return ps_fail(
        e, PS_ERR_CONFIG,
        "will not show names and figures at --http %s, which other machines can reach, without a token: give "
        "--http-tokens FILE (or " HTTP_TOKEN_VALUE
        "), or listen on 127.0.0.1, or say --insecure where all who reach it are trusted",
        text);
}

static const struct access_policy_user *
access_policy_listed_user(const struct access_policy *g, uid_t uid)
{
    for (size_t i = 0; i < g->users_len; i++)
        if (g->users[i].uid == uid)
            return &g->users[i];
    return NULL;
}

enum access_decision
access_policy_decide(const struct access_policy *g, const struct ucred *who, enum role *role)
{
    const struct access_policy_user *user = who != NULL ? access_policy_listed_user(g, who->uid) : NULL;

    *role = user != NULL ? user->role : ROLE_ADMIN;
    if (user != NULL)
        return ACCESS_PASS;
    if (who != NULL && g->users_len == 0 && (who->uid == geteuid() || who->uid == 0))
        return ACCESS_PASS;
    if (g->ring.len == 0 && (who == NULL || g->users_len == 0))
        return ACCESS_PASS;
    *role = ROLE_NONE;
    return g->ring.len > 0 ? ACCESS_DEMAND : ACCESS_REFUSE;
}
