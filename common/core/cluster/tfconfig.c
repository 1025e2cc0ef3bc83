/* The usual path: jansson makes the tree; each job's addresses are checked and copied; the task is checked against
 * them. A set of the addresses seen so far, each with its place, finds one that is given twice. */
#include "common/core/cluster/tfconfig.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/core/base/comma_list.h"
#include "common/core/base/file_kind.h"
#include "common/core/base/nearest.h"
#include "common/core/base/utf8.h"
#include "common/core/cluster/address.h"

#define TF_PLACE_MAX 96

static const char *const tf_job_names[TF_JOBS] = {
    [TF_CHIEF] = "chief", [TF_WORKER] = "worker", [TF_PS] = "ps", [TF_EVALUATOR] = "evaluator"};

const char *
tf_job_name(enum tf_job job)
{
    ps_assert((unsigned)job < TF_JOBS);
    return tf_job_names[job];
}

#define TF_MASTER "master" /* the chief, until TensorFlow 1.12 */

/* TF_JOBS when there is no such job. */
static enum tf_job
tf_job_find(const char *name)
{
    enum tf_job job = 0;

    while (job < TF_JOBS && strcmp(tf_job_names[job], name) != 0)
        job++;
    return job;
}

/* "; did you mean worker?" or "". */
static const char *
tf_job_meant(const char *name, char out[NEAREST_TEXT_MAX])
{
    struct nearest nearest = nearest_to(name);

    for (enum tf_job job = 0; job < TF_JOBS; job++)
        nearest_offer(&nearest, tf_job_names[job]);
    return nearest_text(&nearest, "", out);
}

static enum ps_err
tf_nomem(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "out of memory while reading the cluster's configuration");
}

/* The type of a value, for "expected a list, got a number". */
static const char *
tf_kind(const json_t *value)
{
    if (value == NULL)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* ---- addresses ---- */

/* Addresses that mean the same place have the same key: the host's letters may differ in case. */
static void
tf_address_key(const struct address *a, const char *text, char *out, size_t size)
{
    snprintf(out, size, "%s", text);
    for (char *c = out; !a->is_unix && *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
}

/* Without blanks around it, as an entry of a list has none either; one that is too long stays too long. */
static void
tf_address_trim(const char *text, char out[ADDRESS_MAX + 1])
{
    size_t n;

    text += strspn(text, " \t\r\n");
    for (n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL; n--)
        ;
    snprintf(out, ADDRESS_MAX + 1, "%.*s", (int)MIN(n, (size_t)ADDRESS_MAX), text);
}

/* The address behind a scheme, which a host of the scheme's name does not have. */
static const char *
tf_address_bare(const char *text)
{
    static const char *const schemes[] = {"grpc://", "dns:///", "dns:", "ipv4:", "ipv6:"};

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i]);

        if (strncmp(text, schemes[i], len) == 0 && strchr(text + len, ':') != NULL)
            return text + len;
    }
    return text;
}

static enum ps_err
tf_address_check(const char *text, const char *place, struct address *out, struct ps_error *e)
{
    struct ps_error why = {0};

    if (strlen(text) >= ADDRESS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "%s: the address is longer than %d bytes", place, ADDRESS_MAX - 1);
    if (!utf8_is_printable(text, strlen(text))) /* a path might not be; but workers get their addresses as JSON */
        return ps_fail(e, PS_ERR_CONFIG, "%s: the address is not UTF-8, or has control characters", place);
    if (address_parse(text, out, &why) != PS_OK)
        return ps_fail(e, PS_ERR_CONFIG, "%s: %s", place, why.text);
    if (!out->is_unix && out->port == 0)
        return ps_fail(e, PS_ERR_CONFIG, "%s: '%s' has port 0, which nobody can connect to", place, text);
    return PS_OK;
}

/* Makes the list reach as far as the index; what lies between is not known. */
static enum ps_err
tf_addresses_reach(struct tf_addresses *list, uint32_t index, struct ps_error *e)
{
    char **grown;

    if (index < list->len)
        return PS_OK;
    if ((grown = reallocarray(list->text, (size_t)index + 1, sizeof *grown)) == NULL)
        return tf_nomem(e);
    memset(grown + list->len, 0, (index + 1 - list->len) * sizeof *grown);
    list->text = grown;
    list->len = index + 1;
    return PS_OK;
}

/* Check one address and put it there. seen: key → place of the first. The error carries the place. */
static enum ps_err
tf_addresses_put(struct tf_addresses *list, uint64_t index, json_t *seen, const char *text, const char *place,
                 struct ps_error *e)
{
    struct address address = {0};
    char key[ADDRESS_MAX];
    const json_t *first;
    enum ps_err err;

    if ((err = tf_address_check(text, place, &address, e)) != PS_OK)
        return err;
    tf_address_key(&address, text, key, sizeof key);
    if ((first = json_object_get(seen, key)) != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s: '%s' was already given at %s; every process needs its own address", place,
                       text, json_string_value(first));
    if (index >= TF_ADDRESSES_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "%s: more than %d addresses", place, TF_ADDRESSES_MAX);
    if (json_object_set_new(seen, key, json_string(place)) != 0)
        return tf_nomem(e);
    if ((err = tf_addresses_reach(list, (uint32_t)index, e)) != PS_OK)
        return err;
    if (list->text[index] != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s: the index is there twice", place);
    return (list->text[index] = strdup(text)) != NULL ? PS_OK : tf_nomem(e);
}

/* ---- jobs ---- */

/* Whole numbers as Python's int() takes them from a text. */
static bool
tf_index_text(const char *text, int64_t *out)
{
    char *end;

    text += strspn(text, " \t\n\r");
    if (text[text[0] == '+' || text[0] == '-'] < '0' || text[text[0] == '+' || text[0] == '-'] > '9')
        return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end[strspn(end, " \t\n\r")] == '\0';
}

static enum ps_err
tf_parse_item(enum tf_job job, uint64_t index, const json_t *item, json_t *seen, struct tf_config *out,
              struct ps_error *e)
{
    char place[TF_PLACE_MAX], text[ADDRESS_MAX + 1];

    snprintf(place, sizeof place, "TF_CONFIG: cluster.%s[%llu]", tf_job_names[job], (unsigned long long)index);
    if (!json_is_string(item))
        return ps_fail(e, PS_ERR_CONFIG, "%s: expected an address such as \"host:port\", got %s", place, tf_kind(item));
    tf_address_trim(json_string_value(item), text);
    return tf_addresses_put(&out->jobs[job], index, seen, tf_address_bare(text), place, e);
}

/* {"0": "host:port", "2": ...} */
static enum ps_err
tf_parse_indices(enum tf_job job, json_t *addresses, json_t *seen, struct tf_config *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    const char *name;
    int64_t index;
    json_t *item;

    json_object_foreach(addresses, name, item)
    {
        if (!tf_index_text(name, &index) || index < 0)
            err = ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.%s: '%.32s' is not an index: expected 0, 1 ...",
                          tf_job_names[job], name);
        else
            err = tf_parse_item(job, (uint64_t)index, item, seen, out, e);
        if (err != PS_OK)
            break;
    }
    return err;
}

static enum ps_err
tf_parse_job(enum tf_job job, json_t *addresses, json_t *seen, struct tf_config *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    const json_t *item;
    size_t i;

    out->jobs[job].indexed = json_is_object(addresses);
    if (json_is_object(addresses)) {
        err = tf_parse_indices(job, addresses, seen, out, e);
    } else if (json_is_array(addresses)) {
        json_array_foreach(addresses, i, item) if (err == PS_OK) err = tf_parse_item(job, i, item, seen, out, e);
    } else {
        err = ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.%s: expected a list of addresses, got %s",
                      tf_job_names[job], tf_kind(addresses));
    }
    if (err == PS_OK && job == TF_CHIEF && out->jobs[TF_CHIEF].len > 1)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster.chief[1]: there can be only one chief");
    return err;
}

/* Every process must know where all of these are. */
static enum ps_err
tf_check_whole(const struct tf_config *c, enum tf_job job, struct ps_error *e)
{
    for (uint32_t i = 0; i < c->jobs[job].len; i++)
        if (c->jobs[job].text[i] == NULL)
            return ps_fail(e, PS_ERR_CONFIG,
                           "TF_CONFIG: cluster.%s[%u]: missing; the address of every %s is needed here",
                           tf_job_names[job], i, tf_job_names[job]);
    return PS_OK;
}

static enum ps_err
tf_parse_cluster(json_t *cluster, struct tf_config *out, struct ps_error *e)
{
    char meant[NEAREST_TEXT_MAX];
    json_t *seen, *addresses;
    enum ps_err err = PS_OK;
    const char *name;

    if (!json_is_object(cluster))
        return cluster == NULL
                   ? ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster: missing")
                   : ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: cluster: expected an object, got %s", tf_kind(cluster));
    if ((seen = json_object()) == NULL)
        return tf_nomem(e);
    json_object_foreach(cluster, name, addresses)
    {
        enum tf_job job = strcmp(name, TF_MASTER) == 0 ? TF_CHIEF : tf_job_find(name);

        if (job == TF_JOBS)
            err = ps_fail(e, PS_ERR_CONFIG,
                          "TF_CONFIG: cluster.%.64s: unknown job; the jobs are chief, worker, ps, evaluator%s", name,
                          tf_job_meant(name, meant));
        else
            err = tf_parse_job(job, addresses, seen, out, e);
        if (err != PS_OK)
            break;
    }
    json_decref(seen);
    return err != PS_OK ? err : tf_check_whole(out, TF_PS, e);
}

static json_t *
tf_find_cluster(const json_t *root)
{
    json_t *cluster = json_object_get(root, "cluster");

    return cluster != NULL ? cluster : json_object_get(root, "sparseCluster");
}

/* ---- task ---- */

static enum ps_err
tf_parse_type(const json_t *type, struct tf_config *out, struct ps_error *e)
{
    const char *name = json_string_value(type);
    char meant[NEAREST_TEXT_MAX];

    if (type == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.type: missing");
    if (name == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.type: expected a string, got %s", tf_kind(type));
    out->type = strcmp(name, TF_MASTER) == 0 && out->jobs[TF_CHIEF].len > 0 ? TF_CHIEF : tf_job_find(name);
    if (out->type == TF_JOBS)
        return ps_fail(e, PS_ERR_CONFIG,
                       "TF_CONFIG: task.type: unknown job '%.64s'; the jobs are chief, worker, ps, evaluator%s", name,
                       tf_job_meant(name, meant));
    return PS_OK;
}

/* A number, or a text or a fraction that is one. False: none, with the error. */
static bool
tf_index_value(const json_t *index, int64_t *out, struct ps_error *e)
{
    const char *text = json_string_value(index);
    double real = json_real_value(index);

    if (json_is_integer(index)) {
        *out = json_integer_value(index);
        return true;
    }
    if (json_is_real(index) && real >= 0 && real <= TF_ADDRESSES_MAX && real == (double)(int64_t)real) {
        *out = (int64_t)real;
        return true;
    }
    if (text != NULL && tf_index_text(text, out))
        return true;
    if (text != NULL)
        (void)ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.index: expected a whole number, got '%.64s'", text);
    else
        (void)ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.index: expected a whole number, got %s", tf_kind(index));
    return false;
}

/* Without an index it is the only one of its job. */
static enum ps_err
tf_parse_index(const json_t *index, struct tf_config *out, struct ps_error *e)
{
    const char *job = tf_job_names[out->type];
    const struct tf_addresses *list = &out->jobs[out->type];
    uint32_t len = list->len == 0 && out->type == TF_EVALUATOR ? 1 : list->len;
    int64_t value = 0;

    if (index == NULL && len > 1)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.index: missing");
    if (index != NULL && !tf_index_value(index, &value, e))
        return PS_ERR_CONFIG;
    if (len == 0)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.type: this process is a %s, but cluster.%s lists none", job,
                       job);
    if (value < 0 || value >= len)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.index: %lld is out of range; cluster.%s has %u address%s",
                       (long long)value, job, len, len == 1 ? "" : "es");
    if (list->len > 0 && list->text[value] == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.index: cluster.%s does not say where %lld is", job,
                       (long long)value);
    out->index = (uint32_t)value;
    return PS_OK;
}

static enum ps_err
tf_parse_task(const json_t *task, struct tf_config *out, struct ps_error *e)
{
    enum ps_err err;

    if (task == NULL)
        return ps_fail(e, PS_ERR_CONFIG,
                       "TF_CONFIG: task: missing; it says which process this is: {\"type\": \"worker\", \"index\": 0}");
    if (!json_is_object(task))
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task: expected an object, got %s", tf_kind(task));
    if ((err = tf_parse_type(json_object_get(task, "type"), out, e)) != PS_OK)
        return err;
    return tf_parse_index(json_object_get(task, "index"), out, e);
}

/* ---- public ---- */

/* The tree of the text, or NULL with the error. */
static json_t *
tf_load(const char *text, enum ps_err *err, struct ps_error *e)
{
    json_error_t where;
    json_t *root;

    text += file_kind_mark(text, strlen(text)); /* it may be a file's text */
    root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);

    *err = PS_OK;
    if (root == NULL && json_error_code(&where) == json_error_out_of_memory)
        *err = tf_nomem(e);
    else if (root == NULL)
        *err = ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG:%d:%d: not valid JSON: %s", where.line, where.column, where.text);
    else if (!json_is_object(root))
        *err = ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: expected an object, got %s", tf_kind(root));
    return root;
}

enum ps_err
tf_config_parse(const char *text, struct tf_config *out, struct ps_error *e)
{
    enum ps_err err;
    json_t *root = tf_load(text, &err, e);

    *out = (struct tf_config){0};
    if (err == PS_OK && (err = tf_parse_cluster(tf_find_cluster(root), out, e)) == PS_OK)
        err = tf_parse_task(json_object_get(root, "task"), out, e);
    json_decref(root);
    return err;
}

enum ps_err
tf_config_parse_cluster(const char *text, struct tf_config *out, bool *task, struct ps_error *e)
{
    enum ps_err err;
    json_t *root = tf_load(text, &err, e);

    *out = (struct tf_config){0};
    *task = err == PS_OK && json_object_get(root, "task") != NULL;
    if (err == PS_OK)
        err = tf_parse_cluster(tf_find_cluster(root), out, e);
    for (int job = 0; job < TF_JOBS && err == PS_OK; job++)
        err = tf_check_whole(out, (enum tf_job)job, e);
    json_decref(root);
    return err;
}

enum ps_err
tf_config_parse_list(const char *source, const char *list, struct tf_config *out, struct ps_error *e)
{
    char place[TF_PLACE_MAX], item[ADDRESS_MAX + 1];
    enum ps_err err = PS_OK;
    const char *at = list;
    json_t *seen = json_object();

    *out = (struct tf_config){.type = TF_WORKER};
    if (seen == NULL)
        err = tf_nomem(e);
    for (size_t i = 0; err == PS_OK && comma_list_next(&at, item, sizeof item); i++) {
        snprintf(place, sizeof place, "%s[%zu]", source, i);
        if (*item == '\0')
            err = ps_fail(e, PS_ERR_CONFIG, "%s: an address is missing", place);
        else
            err = tf_addresses_put(&out->jobs[TF_PS], i, seen, item, place, e);
    }
    json_decref(seen);
    return err;
}

void
tf_config_finish(struct tf_config *c)
{
    for (size_t job = 0; job < TF_JOBS; job++) {
        for (uint32_t i = 0; i < c->jobs[job].len; i++)
            free(c->jobs[job].text[i]);
        free(c->jobs[job].text);
    }
    *c = (struct tf_config){0};
}
