/* The table comes first; a row says all there is to know of an option. Parsing fills text[] (what was written) and the
 * field (what it means); which wins is decided by the source, so that file and command line may be read in any order.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/address.h"
#include "common/tfconfig.h"
#include "common/wire.h"

enum kind { TEXT, ADDRESSES, NUMBER, OCTAL, SIZE, TIME_MS, TIME_US, LEVEL, FLAG };

enum how { RELOADABLE = 1, REPEATABLE = 2, ARGS_ONLY = 4 };

struct row {
    const char *name;
    enum kind kind;
    size_t at;         /* of the field in struct options */
    const char *usual; /* default, as one would write it; NULL: none */
    const char *shown; /* default as --help says it, when it is not `usual` */
    uint64_t min, max;
    int how;
    const char *value; /* what --help calls the value */
    const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct row rows[] = {
    {"listen", ADDRESSES, AT(listen), "127.0.0.1:7420", NULL, 0, 0, REPEATABLE, "ADDRESS,...",
     "where to listen: host:port, [v6]:port or unix:/path; port 0 is any free one; \"none\" for no TCP"},
    {"unix", TEXT, AT(unix_path), NULL, "none", 0, 0, 0, "PATH", "also listen on this Unix socket"},
    {"unix-mode", OCTAL, AT(unix_mode), "0600", NULL, 0, 0777, 0, "MODE", "permissions of Unix sockets, octal"},
    {"advertise", ADDRESSES, AT(advertise), NULL, "the address listened on", 0, 0, 0, "ADDRESS",
     "the address under which clients reach this shard, as it is announced"},
    {"cluster", TEXT, AT(cluster), "psd", NULL, 0, 0, 0, "NAME",
     "the cluster's name; clients of another one are refused"},
    {"shard", NUMBER, AT(shard), "0", NULL, 0, WIRE_SHARDS_MAX - 1, 0, "INDEX", "which shard of the cluster this is"},
    {"shards", NUMBER, AT(shards), "1", NULL, 1, WIRE_SHARDS_MAX, 0, "COUNT", "how many shards the cluster has"},
    {"live-dir", TEXT, AT(live_dir), NULL, "$RUNTIME_DIRECTORY/live, else /dev/shm/psd-UID/CLUSTER-SHARD", 0, 0, 0,
     "DIR", "where the data lives; should be on tmpfs; one psd per directory"},
    {"memory", SIZE, AT(memory), "0", "80 % of what the directory's filesystem has free", 0, UINT64_MAX / 2, 0, "SIZE",
     "the most memory that the data may take, in bytes or with KiB, MiB, GiB"},
    {"discard-stale", FLAG, AT(discard_stale), NULL, "off", 0, 0, ARGS_ONLY, NULL,
     "empty a live directory that another boot of this machine left unsynced, instead of refusing it"},
    {"in-flight", SIZE, AT(in_flight), "256MiB", NULL, 8 * MIB, UINT64_MAX / 2, RELOADABLE, "SIZE",
     "messages in memory, all connections together; past it psd stops reading until some were dealt with"},
    {"in-flight-connection", SIZE, AT(in_flight_connection), "32MiB", NULL, 8 * MIB, UINT64_MAX / 2, RELOADABLE, "SIZE",
     "the same for one connection"},
    {"gather-memory", SIZE, AT(gather_memory), "1GiB", NULL, 0, UINT64_MAX / 2, 0, "SIZE",
     "gradients that wait for the rest of their step in sync jobs"},
    {"connections-max", NUMBER, AT(connections_max), "4096", NULL, 1, 1000000, 0, "COUNT",
     "connections at once; more are refused"},
    {"grace", TIME_MS, AT(grace_ms), "5s", NULL, 1, WIRE_LEASE_MS_MAX, RELOADABLE, "TIME",
     "between a worker's lost connection and its lapse, in ms or with ms, s, m, h"},
    {"tcp-congestion", TEXT, AT(tcp_congestion), "auto", "auto: reno on loopback, the system's own elsewhere", 0, 0,
     RELOADABLE, "NAME", "TCP congestion control of new connections"},
    {"spin-us", TIME_US, AT(spin_us), "0", NULL, 0, 10000000, RELOADABLE, "TIME",
     "look for messages this long, in us, before sleeping: lower latency for one busy core"},
    {"log-level", LEVEL, AT(log_level), "info", NULL, 0, 0, RELOADABLE, "LEVEL", "error, warning, info or debug"},
    {"ready-fd", NUMBER, AT(ready_fd), "0", "none", 3, 1 << 20, ARGS_ONLY, "FD",
     "when serving, write the addresses listened on to this descriptor, one a line, and close it"},
    {"ready-file", TEXT, AT(ready_file), NULL, "none", 0, 0, ARGS_ONLY, "PATH",
     "the same to a file, which appears whole"},
    {"config", TEXT, AT(config), NULL, "none", 0, 0, ARGS_ONLY, "FILE",
     "lines \"name = value\" with the names above; the command line wins; read again on SIGHUP"},
    {"check", FLAG, AT(check), NULL, "off", 0, 0, ARGS_ONLY, NULL, "check the options, say what is wrong, and exit"},
    {"version", FLAG, AT(version), NULL, NULL, 0, 0, ARGS_ONLY, NULL, "print the version and exit"},
    {"help", FLAG, AT(help), NULL, NULL, 0, 0, ARGS_ONLY, NULL, "print this and exit"},
};
static_assert(ARRAY_LEN(rows) <= OPTIONS_MAX, "text[] has a place for each option");

static void *
field(const struct options *o, const struct row *r)
{
    return (char *)(uintptr_t)o + r->at;
}

static size_t
row_index(const struct row *r)
{
    return (size_t)(r - rows);
}

static const struct row *
row_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

/* ---- Values ---- */

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {{"", 1},      {"B", 1},   {"K", KIB},   {"KiB", KIB},      {"M", MIB},
                                         {"MiB", MIB}, {"G", GIB}, {"GiB", GIB}, {"T", 1024 * GIB}, {"TiB", 1024 * GIB},
                                         {NULL, 0}};
static const struct unit ms_units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct unit us_units[] = {{"", 1}, {"us", 1}, {"ms", 1000}, {"s", 1000000}, {NULL, 0}};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *
units_of(enum kind kind)
{
    switch (kind) {
    case SIZE:
        return size_units;
    case TIME_MS:
        return ms_units;
    case TIME_US:
        return us_units;
    default:
        return no_units;
    }
}

static bool
number_parse(const char *text, const struct unit *units, uint64_t *out)
{
    unsigned long long n;
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    n = strtoull(text, &end, 10);
    while (*end == ' ')
        end++;
    for (; units->name != NULL; units++)
        if (strcasecmp(units->name, end) == 0)
            return errno == 0 && !__builtin_mul_overflow((uint64_t)n, units->factor, out);
    return false;
}

static bool
octal_parse(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 8);
    return isdigit((unsigned char)*text) && *end == '\0';
}

/* Where a value comes from, as the start of an error's sentence: "--grace", or "psd.conf:3: grace". */
struct place {
    const struct row *row;
    const char *file;
    int line;
};

static enum ps_err
fail_at(const struct place *p, struct ps_error *e, const char *what, const char *text)
{
    if (p->file != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%d: %s %s: \"%s\"", p->file, p->line, p->row->name, what, text);
    return ps_fail(e, PS_ERR_CONFIG, "--%s %s: \"%s\"", p->row->name, what, text);
}

static enum ps_err
set_number(struct options *o, const struct place *p, const char *text, struct ps_error *e)
{
    const struct row *r = p->row;
    uint64_t value;
    char range[96];
    bool ok = r->kind == OCTAL ? octal_parse(text, &value) : number_parse(text, units_of(r->kind), &value);
    static const char *const wants[] = {[NUMBER] = "takes a number",
                                        [OCTAL] = "takes an octal number",
                                        [SIZE] = "takes a size such as 64MiB",
                                        [TIME_MS] = "takes a time such as 5s or 500ms",
                                        [TIME_US] = "takes a time such as 50us"};

    if (!ok)
        return fail_at(p, e, wants[r->kind], text);
    if (value < r->min || value > r->max) {
        snprintf(range, sizeof range,
                 r->kind == OCTAL ? "must be %" PRIo64 " to %" PRIo64 : "must be %" PRIu64 " to %" PRIu64, r->min,
                 r->max);
        return fail_at(p, e, range, text);
    }
    *(uint64_t *)field(o, r) = value;
    return PS_OK;
}

/* Each of a list separated by commas; "none" alone is allowed. */
static enum ps_err
check_addresses(const struct place *p, const char *text, struct ps_error *e)
{
    char one[ADDRESS_MAX];
    struct address address;
    struct ps_error why = {0};

    if (strcmp(text, "none") == 0)
        return PS_OK;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");

        snprintf(one, sizeof one, "%.*s", (int)MIN(n, sizeof one - 1), at);
        if (address_parse(one, &address, &why) != PS_OK)
            return fail_at(p, e, why.text, text);
        at += n;
        if (*at == '\0')
            return PS_OK;
    }
}

static enum ps_err
set_level(struct options *o, const struct place *p, const char *text, struct ps_error *e)
{
    enum log_level level;

    if (!log_level_parse(text, &level))
        return fail_at(p, e, "is one of error, warning, info, debug", text);
    *(uint64_t *)field(o, p->row) = level;
    return PS_OK;
}

static enum ps_err
set_flag(struct options *o, const struct place *p, const char *text, struct ps_error *e)
{
    if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
        return fail_at(p, e, "takes no value, or yes or no", text);
    *(bool *)field(o, p->row) = text[0] == 'y';
    return PS_OK;
}

static enum ps_err
set_meaning(struct options *o, const struct place *p, char *text, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    switch (p->row->kind) {
    case ADDRESSES:
        err = check_addresses(p, text, e);
        break;
    case TEXT:
        if (*text == '\0')
            err = fail_at(p, e, "may not be empty", text);
        break;
    case LEVEL:
        return set_level(o, p, text, e);
    case FLAG:
        return set_flag(o, p, text, e);
    default:
        return set_number(o, p, text, e);
    }
    *(const char **)field(o, p->row) = text;
    return err;
}

/* Give an option its text. Nothing happens when it already has one from a better source; a repeatable one that has one
 * from the same source gets both. */
static enum ps_err
set(struct options *o, const struct place *p, enum option_source source, const char *text, struct ps_error *e)
{
    size_t i = row_index(p->row);
    bool append = o->text[i] != NULL && o->source[i] == source && source != FROM_DEFAULT;
    char *copy = NULL;

    if (o->text[i] != NULL && o->source[i] > source)
        return PS_OK;
    if (append && !(p->row->how & REPEATABLE) && p->row->kind != FLAG)
        return fail_at(p, e, "is given twice", text);
    if ((append && (p->row->how & REPEATABLE) ? asprintf(&copy, "%s,%s", o->text[i], text)
                                              : asprintf(&copy, "%s", text)) < 0)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    free(o->text[i]);
    o->text[i] = copy;
    o->source[i] = source;
    return set_meaning(o, p, copy, e);
}

static enum ps_err
set_defaults(struct options *o, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < ARRAY_LEN(rows) && err == PS_OK; i++) {
        struct place p = {.row = &rows[i]};

        if (rows[i].usual == NULL)
            continue;
        if (rows[i].min > 0 && strcmp(rows[i].usual, "0") == 0)
            continue; /* 0 means that there is none */
        err = set(o, &p, FROM_DEFAULT, rows[i].usual, e);
    }
    return err;
}

/* ---- Command line ---- */

static enum ps_err
parse_arg(struct options *o, int argc, char *const *argv, int *at, struct ps_error *e)
{
    const char *arg = argv[*at], *value;
    size_t len;
    struct place p = {0};

    if (strcmp(arg, "-h") == 0)
        arg = "--help";
    if (strncmp(arg, "--", 2) != 0)
        return ps_fail(e, PS_ERR_CONFIG, "\"%s\" is not an option; see psd --help", arg);
    len = strcspn(arg + 2, "=");
    p.row = row_find(arg + 2, len);
    if (p.row == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "there is no option --%.*s; see psd --help", (int)len, arg + 2);
    if (arg[2 + len] == '=')
        value = arg + 2 + len + 1;
    else if (p.row->kind == FLAG)
        value = "yes";
    else if (++*at < argc)
        value = argv[*at];
    else
        return ps_fail(e, PS_ERR_CONFIG, "--%s needs a value: %s", p.row->name, p.row->value);
    return set(o, &p, FROM_ARGS, value, e);
}

static enum ps_err
parse_args(struct options *o, int argc, char *const *argv, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int at = 1; at < argc && err == PS_OK; at++)
        err = parse_arg(o, argc, argv, &at, e);
    return err;
}

/* ---- Configuration file ---- */

static char *
trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static enum ps_err
parse_line(struct options *o, const char *file, int number, char *line, struct ps_error *e)
{
    struct place p = {.file = file, .line = number};
    char *name, *value;

    if (strchr(line, '#') != NULL)
        *strchr(line, '#') = '\0';
    name = trim(line);
    if (*name == '\0')
        return PS_OK;
    value = strchr(name, '=');
    if (value == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%d: a line is \"name = value\"", file, number);
    *value = '\0';
    name = trim(name);
    p.row = row_find(name, strlen(name));
    if (p.row == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%d: there is no option %s", file, number, name);
    if (p.row->how & ARGS_ONLY)
        return ps_fail(e, PS_ERR_CONFIG, "%s:%d: %s is for the command line only", file, number, name);
    return set(o, &p, FROM_FILE, trim(value + 1), e);
}

static enum ps_err
parse_file(struct options *o, const char *file, struct ps_error *e)
{
    FILE *in = fopen(file, "re");
    enum ps_err err = PS_OK;
    char *line = NULL;
    size_t size = 0;

    if (in == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "cannot read the configuration file %s: %s", file, strerror(errno));
    for (int number = 1; err == PS_OK && getline(&line, &size, in) >= 0; number++)
        err = parse_line(o, file, number, line, e);
    if (err == PS_OK && ferror(in))
        err = ps_fail(e, PS_ERR_CONFIG, "cannot read the configuration file %s: %s", file, strerror(errno));
    free(line);
    fclose(in);
    return err;
}

/* ---- All together ---- */

static bool
given(const struct options *o, const char *name)
{
    return o->source[row_index(row_find(name, strlen(name)))] > FROM_ENVIRONMENT;
}

static enum ps_err
check_place(const struct options *o, struct ps_error *e)
{
    if (o->shard >= o->shards)
        return ps_fail(e, PS_ERR_CONFIG, "shard %" PRIu64 " of %" PRIu64 ": indices are 0 to --shards less one",
                       o->shard, o->shards);
    return PS_OK;
}

/* Checks that need several options. Without --shards the environment may still say how many there are. */
static enum ps_err
options_check(const struct options *o, struct ps_error *e)
{
    if (given(o, "shards") && check_place(o, e) != PS_OK)
        return PS_ERR_CONFIG;
    if (strlen(o->cluster) > WIRE_CLUSTER_MAX || !wire_text_ok(o->cluster, strlen(o->cluster)))
        return ps_fail(e, PS_ERR_CONFIG, "--cluster is at most %d bytes of UTF-8 without control characters",
                       WIRE_CLUSTER_MAX);
    if (o->in_flight_connection > o->in_flight)
        return ps_fail(e, PS_ERR_CONFIG,
                       "--in-flight-connection (%" PRIu64 " MiB) is more than --in-flight (%" PRIu64 " MiB)",
                       (uint64_t)(o->in_flight_connection / MIB), (uint64_t)(o->in_flight / MIB));
    if (strcmp(o->listen, "none") == 0 && o->unix_path == NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--listen none without --unix: nobody could connect");
    if (o->advertise != NULL && strchr(o->advertise, ',') != NULL)
        return ps_fail(e, PS_ERR_CONFIG, "--advertise takes one address: \"%s\"", o->advertise);
    return PS_OK;
}

enum ps_err
options_parse(struct options *o, int argc, char *const *argv, struct ps_error *e)
{
    enum ps_err err;

    *o = (struct options){0};
    if ((err = set_defaults(o, e)) != PS_OK || (err = parse_args(o, argc, argv, e)) != PS_OK)
        return err;
    if (o->help || o->version)
        return PS_OK;
    if (o->config != NULL && (err = parse_file(o, o->config, e)) != PS_OK)
        return err;
    return options_check(o, e);
}

void
options_finish(struct options *o)
{
    for (size_t i = 0; i < OPTIONS_MAX; i++)
        free(o->text[i]);
    *o = (struct options){0};
}

/* ---- The environment: TF_CONFIG or PSD_SHARDS ---- */

static bool
is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

/* Where a process that the cluster knows as `address` listens: others come from other machines, so on all interfaces,
 * unless the address itself is a loopback one. */
static void
listen_for(const char *text, const struct address *address, char *out, size_t size)
{
    if (address->is_unix || is_loopback(address->host))
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, "[::]:%u", address->port);
}

/* source: the variable that the text is from, for errors. */
static enum ps_err
set_named(struct options *o, const char *source, const char *name, const char *text, struct ps_error *e)
{
    struct place p = {.row = row_find(name, strlen(name)), .file = source, .line = 1};

    return set(o, &p, FROM_ENVIRONMENT, text, e);
}

/* This process is the one at `index` in the list of the cluster's shards. */
static enum ps_err
apply_place(struct options *o, const char *source, const struct tf_addresses *ps, uint64_t index, struct ps_error *e)
{
    struct address address;
    char text[ADDRESS_MAX];
    enum ps_err err;

    if ((err = address_parse(ps->text[index], &address, e)) != PS_OK)
        return err;
    listen_for(ps->text[index], &address, text, sizeof text);
    if (address.is_unix && o->unix_path != NULL && strcmp(address.path, o->unix_path) == 0)
        snprintf(text, sizeof text, "none"); /* --unix listens there */
    if ((err = set_named(o, source, "listen", text, e)) != PS_OK)
        return err;
    if (!given(o, "advertise") && (err = set_named(o, source, "advertise", ps->text[index], e)) != PS_OK)
        return err;
    snprintf(text, sizeof text, "%u", ps->len);
    return set_named(o, source, "shards", text, e);
}

static enum ps_err
apply_task(struct options *o, const struct tf_config *tf, struct ps_error *e)
{
    char text[16];
    enum ps_err err;

    if (tf->type != TF_PS)
        return ps_fail(e, PS_ERR_CONFIG, "TF_CONFIG: task.type is \"%s\"; psd is a \"ps\"", tf_job_name(tf->type));
    snprintf(text, sizeof text, "%u", tf->index);
    if ((err = set_named(o, "TF_CONFIG", "shard", text, e)) != PS_OK)
        return err;
    return apply_place(o, "TF_CONFIG", &tf->jobs[TF_PS], tf->index, e);
}

enum ps_err
options_apply_tf_config(struct options *o, const char *text, struct ps_error *e)
{
    struct tf_config tf = {0};
    enum ps_err err;

    if (text == NULL || given(o, "listen") || given(o, "unix") || given(o, "shard") || given(o, "shards"))
        return check_place(o, e);
    err = tf_config_parse(text, &tf, e);
    if (err == PS_OK)
        err = apply_task(o, &tf, e);
    tf_config_finish(&tf);
    return err != PS_OK ? err : check_place(o, e);
}

enum ps_err
options_apply_shards(struct options *o, const char *list, struct ps_error *e)
{
    struct tf_config tf = {0};
    enum ps_err err;

    if (list == NULL || *list == '\0' || given(o, "listen") || given(o, "shards"))
        return check_place(o, e);
    err = tf_config_parse_list("PSD_SHARDS", list, &tf, e);
    if (err == PS_OK && o->shard >= tf.jobs[TF_PS].len)
        err = ps_fail(e, PS_ERR_CONFIG, "PSD_SHARDS: there is no shard %" PRIu64 " in it: it lists %u", o->shard,
                      tf.jobs[TF_PS].len);
    if (err == PS_OK)
        err = apply_place(o, "PSD_SHARDS", &tf.jobs[TF_PS], o->shard, e);
    tf_config_finish(&tf);
    return err;
}

/* ---- Reloading ---- */

static bool
same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void
options_compare(const struct options *was, const struct options *is, options_visit visit, void *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!same(was->text[i], is->text[i]))
            visit(arg, rows[i].name, (rows[i].how & RELOADABLE) != 0, was->text[i] != NULL ? was->text[i] : "(none)",
                  is->text[i] != NULL ? is->text[i] : "(none)");
}

void
options_reload(struct options *o, const struct options *from)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct place p = {.row = &rows[i]};
        struct ps_error e;
        char *copy;

        if (!(rows[i].how & RELOADABLE) || same(o->text[i], from->text[i]) || from->text[i] == NULL)
            continue;
        copy = strdup(from->text[i]);
        if (copy == NULL || set_meaning(o, &p, copy, &e) != PS_OK) { /* it was parsed once: only memory can lack */
            free(copy);
            continue;
        }
        free(o->text[i]);
        o->text[i] = copy;
        o->source[i] = from->source[i];
    }
}

/* ---- Help ---- */

static void
help_words(FILE *out, const char *text)
{
    int column = 0;

    while (*text != '\0') {
        size_t n = strcspn(text, " ");

        if (column == 0 || column + (int)n > 88)
            column = fprintf(out, "%s          ", column == 0 ? "" : "\n");
        column += fprintf(out, " %.*s", (int)n, text);
        text += n + strspn(text + n, " ");
    }
    fputc('\n', out);
}

static void
help_row(FILE *out, const struct row *r)
{
    const char *usual = r->shown != NULL ? r->shown : r->usual;
    char text[512];

    fprintf(out, "  --%s%s%s\n", r->name, r->value != NULL ? " " : "", r->value != NULL ? r->value : "");
    snprintf(text, sizeof text, "%s%s%s%s%s", r->help, usual != NULL ? "; default " : "", usual != NULL ? usual : "",
             r->how & RELOADABLE ? "; reloaded on SIGHUP" : "", r->how & REPEATABLE ? "; may be given again" : "");
    help_words(out, text);
}

void
options_help(FILE *out)
{
    fputs("Usage: psd [OPTION...]\n"
          "\n"
          "One shard of a parameter server: owns its share of a model's variables, takes gradients, gives values.\n"
          "\n"
          "Options (also as --name=value):\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        help_row(out, &rows[i]);
    fputs(
        "\n"
        "Environment:\n"
        "  TF_CONFIG          when none of --listen, --unix, --shard and --shards is given: task.type must be \"ps\";\n"
        "                     shard, shards and the port come from it\n"
        "  PSD_SHARDS         the cluster as its workers have it, host:port,...: without TF_CONFIG, and when neither\n"
        "                     --listen nor --shards is given, shards and the port of --shard come from it\n"
        "  RUNTIME_DIRECTORY  set by systemd: the live directory is made in it\n"
        "  NOTIFY_SOCKET      set by systemd: told when psd serves, how much it holds, and when it stops\n"
        "  WATCHDOG_USEC      set by systemd: signs of life go to NOTIFY_SOCKET twice as often\n"
        "  JOURNAL_STREAM     set by systemd: log lines take the journal's form\n"
        "\n"
        "Signals:\n"
        "  TERM, INT  finish what is in flight and exit; a second one exits at once\n"
        "  HUP        read the configuration file again\n"
        "\n"
        "Exit status:\n"
        "  0    stopped as asked\n"
        "  1    could not start, or had to stop: the last log line says why\n"
        "  2    an option is not valid\n"
        "  130  a second INT\n"
        "  143  a second TERM\n",
        out);
}
