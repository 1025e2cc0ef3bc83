/* The options of a client: whether they are valid, and the defaults of those that were left out. */
#include <stdlib.h>
#include <string.h>

#include "client/api/choose_transport.h"
#include "client/api/client_state.h"
#include "client/api/trace_recorder.h"
#include "common/core/codec/codec.h"
#include "common/core/model/age.h"
#include "common/core/wire/wire.h"
#include "common/core/wire/wire_text.h"
#include "common/system/cgroup.h"

#define TIMEOUT_DEFAULT_MS 60000
#define COPY_DEFAULT       (256 * MIB)

static_assert(PS_SPIN_NEVER == ADAPTIVE_SPIN_NEVER, "an option is handed over");
static_assert(PS_NAME_MAX == WIRE_NAME_MAX && PS_METRIC_NAME_MAX == WIRE_METRIC_NAME_MAX,
              "what is promised of names is what is checked");

static enum ps_err
check_age(const struct ps_client_options *o, struct ps_error *e)
{
    struct age_policy age = {(enum age_kind)o->age, o->age_parameter};

    if ((int)o->age < PS_AGE_NONE || o->age > PS_AGE_CUTOFF)
        return ps_fail(e, PS_ERR_INVALID, "age policy %d is not known", (int)o->age);
    return age_check(&age, e);
}

enum ps_err
client_options_check(const struct ps_client_options *o, const ps_cluster *cluster, struct ps_error *e)
{
    enum ps_role role = ps_cluster_role(cluster);
    enum ps_err err;

    if (o->job != NULL && (err = wire_name_check("job", o->job, e)) != PS_OK)
        return err;
    if ((err = wire_metric_names_check(o->metrics_named, o->metric_names, e)) != PS_OK)
        return err;
    if ((int)o->mode < PS_ASYNC || o->mode > PS_SYNC)
        return ps_fail(e, PS_ERR_INVALID, "mode %d is not known", (int)o->mode);
    if ((int)o->lapse < PS_LAPSE_SHRINK || o->lapse > PS_LAPSE_FAIL)
        return ps_fail(e, PS_ERR_INVALID, "lapse option %d is not known", (int)o->lapse);
    if (o->quorum > ps_cluster_workers(cluster))
        return ps_fail(e, PS_ERR_INVALID, "the quorum is %u, more than the job's workers (%u)", o->quorum,
                       ps_cluster_workers(cluster));
    if (o->lease_ms > WIRE_LEASE_MS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "the lease is %u ms, the longest is %u", o->lease_ms, WIRE_LEASE_MS_MAX);
    if (o->timeout_ms < 0)
        return ps_fail(e, PS_ERR_INVALID, "the default time-out is %d ms", o->timeout_ms);
    if (o->any_cluster && !o->observer)
        return ps_fail(e, PS_ERR_INVALID, "any_cluster is for observers");
    if (!o->observer && role == PS_ROLE_PS)
        return ps_fail(e, PS_ERR_INVALID, "this process is a parameter server of the cluster: it can only observe");
    if (ps_cluster_shards(cluster) == 0)
        return ps_fail(e, PS_ERR_CONFIG,
                       "the cluster has no shards; TF_CONFIG: cluster.ps lists the addresses of those there are");
    if ((err = codec_check(&o->compress, e)) != PS_OK)
        return err;
    return check_age(o, e);
}

static enum ps_err
take_credentials(ps_client *c, struct ps_error *e)
{
    struct ps_client_options *o = &c->options;
    struct credentials_wanted wanted = {.ca = o->tls_ca, .cert = o->tls_cert, .key = o->tls_key, .name = o->tls_name};

    o->tls_ca = o->tls_cert = o->tls_key = o->tls_name = NULL; /* the caller's */
    return credentials_open(&c->credentials, &wanted, false, e);
}

enum ps_err
client_options_take(ps_client *c, const ps_cluster *cluster, const struct ps_client_options *options,
                    struct ps_error *e)
{
    struct ps_client_options *o = &c->options;
    enum ps_err err;

    if (options != NULL)
        *o = *options;
    if ((err = choose_transport(&o->transport, e)) != PS_OK || (err = trace_recorder_check(e)) != PS_OK ||
        (err = take_credentials(c, e)) != PS_OK) {
        o->job = o->congestion = NULL; /* the caller's */
        return err;
    }
    c->waits_for_shards = !o->observer;
    c->notices = c->waits_for_shards && o->on_event == NULL && !o->quiet;
    o->observer |= ps_cluster_role(cluster) == PS_ROLE_EVALUATOR;
    c->task = o->observer ? -1 : (long)ps_cluster_task(cluster);
    if (o->timeout_ms == 0)
        o->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (o->lease_ms == 0)
        o->lease_ms = WIRE_LEASE_MS;
    if (o->copy_max == 0)
        o->copy_max = COPY_DEFAULT;
    adaptive_spin_init(&c->patience, adaptive_spin_ns(o->adaptive_spin_us, cgroup_cores()));
    o->job = strdup(o->job != NULL ? o->job : "train");
    if (o->congestion != NULL && (o->congestion = strdup(o->congestion)) == NULL) {
        free((char *)o->job);
        o->job = NULL;
    }
    return o->job != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory for a client");
}
