#include "server/process/options.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

static struct options o;
static struct ps_error e;
static char config[64];

static void
options_setup(void)
{
    o = (struct options){0};
    e = (struct ps_error){0};
    config[0] = '\0';
}

static void
options_teardown(void)
{
    options_finish(&o);
    if (config[0] != '\0')
        unlink(config);
}

#define MOST_ARGS 12

/* Parse words that end with NULL. */
static enum ps_err
options_parse_words(const char *const *words)
{
    char *argv[MOST_ARGS + 1] = {(char *)(uintptr_t) "psd"};
    int argc = 1;

    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    options_finish(&o);
    return options_parse(&o, argc, argv, &e);
}

#define PARSE(...) options_parse_words((const char *const[]){__VA_ARGS__, NULL})

static void
write_config(const char *text)
{
    int fd;

    snprintf(config, sizeof config, "/tmp/psd-options-XXXXXX");
    fd = mkstemp(config);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The text is not valid, or its meaning is not. */
static bool
is_refusal(enum ps_err err)
{
    return err == e.code && (err == PS_ERR_INVALID || err == PS_ERR_CONFIG);
}

#define OK(call)       ck_assert_msg((call) == PS_OK, "%s", e.text)
#define REFUSED(call)  ck_assert(is_refusal(call))
#define SAYS(fragment) ck_assert_msg(strstr(e.text, fragment) != NULL, "\"%s\" does not say \"%s\"", e.text, fragment)

START_TEST(defaults_are_those_that_help_prints)
{
    OK(options_parse_words((const char *const[]){NULL}));
    ck_assert_str_eq(o.listen, "127.0.0.1:7420");
    ck_assert_str_eq(o.cluster, "psd");
    ck_assert_str_eq(o.tcp_congestion, "auto");
    ck_assert_uint_eq(o.shards, 1);
    ck_assert_uint_eq(o.in_flight, 256 * MIB);
    ck_assert_uint_eq(o.in_flight_connection, 32 * MIB);
    ck_assert_uint_eq(o.gather_memory, GIB);
    ck_assert_uint_eq(o.grace_ms, 5000);
    ck_assert_uint_eq(o.unix_mode, 0600);
    ck_assert_uint_eq(o.ready_fd, 0);
    ck_assert_uint_eq(o.log_level, LOG_LEVEL_INFO);
    ck_assert_ptr_null(o.live_dir);
}
END_TEST

START_TEST(values_come_with_space_or_equals_sign_and_units)
{
    OK(PARSE("--memory", "2GiB", "--grace=1500ms", "--shard=2", "--shards", "4", "--spin-us=1ms", "--unix-mode=660"));
    ck_assert_uint_eq(o.memory, 2 * GIB);
    ck_assert_uint_eq(o.grace_ms, 1500);
    ck_assert_uint_eq(o.shard, 2);
    ck_assert_uint_eq(o.shards, 4);
    ck_assert_uint_eq(o.spin_us, 1000);
    ck_assert_uint_eq(o.unix_mode, 0660);
    OK(PARSE("--memory=0", "--gather-memory=0", "--save-rate=0"));
    OK(PARSE("--memory=64m"));
    ck_assert_uint_eq(o.memory, 64 * MIB);
    OK(PARSE("--in-flight=1T"));
    ck_assert_uint_eq(o.in_flight, 1024 * GIB);
}
END_TEST

START_TEST(log_levels_go_by_name)
{
    OK(PARSE("--log-level=error"));
    ck_assert_int_eq(o.log_level, LOG_LEVEL_ERROR);
    OK(PARSE("--log-level", "warning"));
    ck_assert_int_eq(o.log_level, LOG_LEVEL_WARNING);
    OK(PARSE("--log-level=debug"));
    ck_assert_int_eq(o.log_level, LOG_LEVEL_DEBUG);
}
END_TEST

START_TEST(listen_may_be_given_again)
{
    OK(PARSE("--listen=127.0.0.1:1,unix:/a", "--listen", "[::1]:2"));
    ck_assert_str_eq(o.listen, "127.0.0.1:1,unix:/a,[::1]:2");
    OK(PARSE("--listen", "127.0.0.1:1, unix:/a"));
    REFUSED(PARSE("--listen", "127.0.0.1:1, ,unix:/a"));
    SAYS("--listen: an address is missing before or after a comma");
    REFUSED(PARSE("--listen", "127.0.0.1:1 unix:/a"));
    SAYS("has a blank in it");
}
END_TEST

START_TEST(http_tls_is_a_switch)
{
    OK(PARSE("--tls-cert=a", "--tls-key=b"));
    ck_assert_int_eq(o.http_tls, 0);
    OK(PARSE("--tls-cert=a", "--tls-key=b", "--http-tls", "--log-level=debug"));
    ck_assert_int_eq(o.http_tls, 1);
    OK(PARSE("--http-tls=on", "--http-tls-cert=a", "--http-tls-key=b"));
    ck_assert_int_eq(o.http_tls, 1);
    OK(PARSE("--http-tls=off", "--tls-cert=a", "--tls-key=b"));
    ck_assert_int_eq(o.http_tls, 0);
}
END_TEST

static const struct {
    const char *words[4];
    const char *says;
} bad[] = {
    {{"--nonsense"}, "unknown option '--nonsense'; psd --help lists them"},
    {{"nonsense"}, "unexpected 'nonsense': psd takes options alone"},
    {{"--memory"}, "--memory: expected a value (SIZE) after it"},
    {{"--memory=lots"}, "--memory: expected a size such as 64MiB, got 'lots'"},
    {{"--memory=-1"}, "--memory: expected a size such as 64MiB"},
    {{"--memory=99999999999999999999"}, "--memory: expected a size such as 64MiB"},
    {{"--memory=99999999TiB"}, "--memory: expected a size such as 64MiB"},
    {{"--memory=5s"}, "--memory: expected a size such as 64MiB"},
    {{"--memory=5"},
     "--memory: expected 0 or a size of at least 64MiB, got '5', which without a unit is bytes (units: KiB, MiB, GiB"},
    {{"--memory=63.9MiB"}, "--memory: expected 0 or a size of at least 64MiB, got '63.9MiB'"},
    {{"--in-flight=200"}, "--in-flight: expected a size of at least 8MiB, got '200', which without a unit is bytes"},
    {{"--gather-memory=1"}, "--gather-memory: expected 0 or a size of at least 1MiB, got '1', which"},
    {{"--save-rate=256"}, "--save-rate: expected 0 or a size of at least 64KiB, got '256', which"},
    {{"--grace=5MiB"}, "--grace: expected a time such as 5s or 500ms"},
    {{"--grace=5"},
     "--grace: expected a time from 100ms to 1d, got '5', which without a unit is milliseconds (units: ms"},
    {{"--grace=99ms"}, "--grace: expected a time from 100ms to 1d, got '99ms'"},
    {{"--hello-timeout=10"}, "got '10', which without a unit is milliseconds"},
    {{"--shards=0"}, "--shards: expected a number from 1 to 4096"},
    {{"--shard=1", "--shards=1"}, "shard 1 of 1"},
    {{"--shard=one"}, "--shard: expected a whole number"},
    {{"--log-level=loud"}, "--log-level: expected one of error, warning, info, debug, got 'loud'"},
    {{"--listen=nowhere"}, "--listen: "},
    {{"--listen=127.0.0.1:1,"}, "--listen: "},
    {{"--advertise=a:1,b:2"}, "--advertise: "},
    {{"--advertise=none"}, "--advertise: "},
    {{"--listen=none"}, "nobody could connect"},
    {{"--cluster="}, "--cluster: it may not be empty"},
    {{"--cluster=a", "--cluster=b"}, "--cluster: it is given twice"},
    {{"--cluster=a\nb"}, "control characters"},
    {{"--unix-mode=888"}, "--unix-mode: expected a mode such as 0660"},
    {{"--check=maybe"}, "--check takes no value"},
    {{"--in-flight=8MiB"}, "is more than --in-flight"},
    {{"--config=/does/not/exist"}, "/does/not/exist"},
    {{"--http-tls"}, "--http-tls needs a certificate: --tls-cert and --tls-key, or --http-tls-cert and"},
    {{"--http-tls=maybe"}, "--http-tls: expected one of off, on, got 'maybe'"},
    {{"--http-tls", "--http-tls-cert=a"}, "--http-tls-cert and --http-tls-key belong together"},
    {{"--http-tls", "--http-tls-key=a"}, "--http-tls-cert and --http-tls-key belong together"},
    {{"--http-tls-cert=a", "--http-tls-key=b"}, "are for --http-tls, which is not given"},
    {{"--ready-fd=1"}, "--ready-fd: expected a number from 3 to 1048576"},
};

START_TEST(bad_command_line_is_one_clear_sentence)
{
    REFUSED(options_parse_words(bad[_i].words));
    SAYS(bad[_i].says);
}
END_TEST

START_TEST(file_gives_values_and_the_command_line_wins)
{
    char arg[96];

    write_config("# psd.conf\n\n cluster = blue  # a comment\nshards=3\nshard = 1\ngrace = 2s\n"
                 "tls-cert = a\ntls-key = b\nhttp-tls = on\n");
    snprintf(arg, sizeof arg, "--config=%s", config);
    OK(PARSE("--shard=2", arg, "--log-level=debug"));
    ck_assert_str_eq(o.cluster, "blue");
    ck_assert_uint_eq(o.shards, 3);
    ck_assert_uint_eq(o.shard, 2);
    ck_assert_uint_eq(o.grace_ms, 2000);
    ck_assert_int_eq(o.http_tls, 1);
}
END_TEST

static const struct {
    const char *text, *says;
} bad_files[] = {
    {"cluster = \"blue\n", ":1: cluster: a value stands in two quotes, or in none"},
    {"cluster = 'blue' red\n", ":1: cluster: a value stands in two quotes, or in none"},
    {"\xc2\xa0memory = 1GiB\n", ":1: there is no option \\u00a0memory"},
    {"cluster = a\n\nbanana = 1\n", ":3: there is no option banana"},
    {"cluster\n", ":1: a line is \"name = value\""},
    {"grace = soon\n", ":1: grace: expected a time such as 5s or 500ms, got 'soon'"},
    {"shards = 2\nshards = 3\n", ":2: shards: it is given twice"},
    {"config = other\n", ":1: config is for the command line only"},
    {"discard-stale = yes\n", ":1: discard-stale is for the command line only"},
};

START_TEST(bad_file_is_named_with_its_line)
{
    char arg[96], says[256];

    write_config(bad_files[_i].text);
    snprintf(arg, sizeof arg, "--config=%s", config);
    snprintf(says, sizeof says, "%s%s", config, bad_files[_i].says);
    REFUSED(PARSE(arg));
    SAYS(says);
}
END_TEST

/* What editors of other systems make of a file, and other formats' habits. */
static const char *const alike[] = {
    "# mine\ncluster = blue\ngrace = 2s # short\n",        "# mine\r\ncluster = blue\r\ngrace = 2s # short\r\n",
    "# mine\rcluster = blue\rgrace = 2s # short\r",        "\357\273\277cluster = blue\ngrace = 2s",
    "\xef\xbb\xbf# mine\r\ncluster=blue\t\r\n\tgrace =2s", "cluster = \"blue\"\ngrace = '2s' # short\n",
};

START_TEST(a_file_means_the_same_whatever_wrote_it)
{
    char arg[80];

    write_config(alike[_i]);
    snprintf(arg, sizeof arg, "--config=%s", config);
    OK(PARSE(arg));
    ck_assert_str_eq(o.cluster, "blue");
    ck_assert_uint_eq(o.grace_ms, 2000);
}
END_TEST

START_TEST(within_quotes_a_hash_is_a_character)
{
    char arg[80];

    write_config("cluster = \"a # b\"  # a comment\n");
    snprintf(arg, sizeof arg, "--config=%s", config);
    OK(PARSE(arg));
    ck_assert_str_eq(o.cluster, "a # b");
}
END_TEST

START_TEST(a_file_that_is_no_text_is_refused)
{
    static const char zero[] = "cluster = blue\0\ngrace = 2s\n";
    char arg[80];
    int fd;

    write_config("");
    snprintf(arg, sizeof arg, "--config=%s", config);
    OK(PARSE(arg));
    ck_assert_int_ge(fd = open(config, O_WRONLY), 0);
    ck_assert_int_eq(write(fd, zero, sizeof zero - 1), (ssize_t)sizeof zero - 1);
    close(fd);
    REFUSED(PARSE(arg));
    SAYS(":1: the line holds a zero byte");
    ck_assert_int_ge(fd = open(config, O_WRONLY | O_TRUNC), 0);
    ck_assert_int_eq(write(fd,
                           "\xff\xfe"
                           "c\0",
                           4),
                     4);
    close(fd);
    REFUSED(PARSE(arg));
    SAYS("is text in UTF-16: save it as UTF-8");
    REFUSED(PARSE("--config=/tmp"));
    SAYS("cannot read the configuration file /tmp: Is a directory");
}
END_TEST

START_TEST(help_names_every_option_with_default_and_wins_over_mistakes)
{
    static const char *const wants[] = {"--listen ADDRESS", "127.0.0.1:7420", "--in-flight SIZE",  "256MiB",
                                        "--grace TIME",     "SIGHUP",         "RUNTIME_DIRECTORY", "Exit status",
                                        "TF_CONFIG",        "PSD_SHARDS"};
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    OK(PARSE("--shard=7", "--help"));
    ck_assert_int_eq(command_answer(&psd_command, &o.line, out), 0);
    fclose(out);
    for (size_t i = 0; i < ARRAY_LEN(wants); i++)
        ck_assert_msg(strstr(text, wants[i]) != NULL, "no %s", wants[i]);
    free(text);
}
END_TEST

/* Every name in it is known, and its defaults are those that hold without it. */
START_TEST(the_sample_configuration_is_a_configuration)
{
    struct options bare = {0}, *plain = &bare;
    char *text = NULL, *argv[] = {"psd"}, arg[96];
    size_t len;
    FILE *out = open_memstream(&text, &len);
    int options = 0;

    options_sample(out);
    fclose(out);
    for (char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t n = strcspn(line, "\n");

        ck_assert_uint_le(n, 100);
        if (line[0] == '#' && line[1] != ' ' && line[n - 1] != '=') {
            line[0] = ' ';
            options++;
        }
    }
    ck_assert_int_gt(options, 10);
    write_config(text);
    free(text);
    snprintf(arg, sizeof arg, "--config=%s", config);
    OK(PARSE(arg));
    OK(options_parse(plain, 1, argv, &e));
    ck_assert_str_eq(o.listen, plain->listen);
    ck_assert_uint_eq(o.in_flight, plain->in_flight);
    ck_assert_uint_eq(o.grace_ms, plain->grace_ms);
    ck_assert_uint_eq(o.log_level, plain->log_level);
    options_finish(plain);
}
END_TEST

/* ---- TF_CONFIG ---- */

#define TF(type, index)                                                                                                \
    "{\"cluster\": {\"worker\": [\"a:1\"], \"ps\": [\"10.0.0.1:7000\", \"127.0.0.1:7001\"]},"                          \
    " \"task\": {\"type\": \"" type "\", \"index\": " index "}}"

START_TEST(tf_config_says_which_shard_this_is)
{
    OK(options_parse_words((const char *const[]){NULL}));
    OK(options_apply_tf_config(&o, TF("ps", "0"), &e));
    ck_assert_uint_eq(o.shard, 0);
    ck_assert_uint_eq(o.shards, 2);
    ck_assert_str_eq(o.listen, "[::]:7000"); /* others reach it from other machines */
    ck_assert_str_eq(o.advertise, "10.0.0.1:7000");
    OK(options_parse_words((const char *const[]){NULL}));
    OK(options_apply_tf_config(&o, TF("ps", "1"), &e));
    ck_assert_uint_eq(o.shard, 1);
    ck_assert_str_eq(o.listen, "127.0.0.1:7001");
}
END_TEST

START_TEST(options_win_over_tf_config)
{
    OK(PARSE("--shards=5"));
    OK(options_apply_tf_config(&o, TF("ps", "1"), &e));
    ck_assert_uint_eq(o.shards, 5);
    ck_assert_uint_eq(o.shard, 0);
    OK(options_apply_tf_config(&o, "not even JSON", &e));
}
END_TEST

START_TEST(tf_config_of_a_worker_or_garbage_is_refused)
{
    OK(options_parse_words((const char *const[]){NULL}));
    REFUSED(options_apply_tf_config(&o, TF("worker", "0"), &e));
    SAYS("task.type is \"worker\"");
    REFUSED(options_apply_tf_config(&o, "{", &e));
    SAYS("TF_CONFIG");
}
END_TEST

/* ---- PSD_SHARDS ---- */

#define LIST "10.0.0.1:7000,127.0.0.1:7001,unix:/run/psd/2/socket"

START_TEST(the_list_of_shards_says_where_this_one_listens)
{
    OK(PARSE("--shard=0"));
    OK(options_apply_shards(&o, LIST, &e));
    ck_assert_uint_eq(o.shards, 3);
    ck_assert_str_eq(o.listen, "[::]:7000"); /* others reach it from other machines */
    ck_assert_str_eq(o.advertise, "10.0.0.1:7000");
    OK(PARSE("--shard=1", "--advertise=b:1"));
    OK(options_apply_shards(&o, LIST, &e));
    ck_assert_uint_eq(o.shard, 1);
    ck_assert_str_eq(o.listen, "127.0.0.1:7001");
    ck_assert_str_eq(o.advertise, "b:1");
}
END_TEST

START_TEST(a_unix_socket_in_the_list_is_listened_on_once)
{
    OK(PARSE("--shard=2"));
    OK(options_apply_shards(&o, LIST, &e));
    ck_assert_str_eq(o.listen, "unix:/run/psd/2/socket");
    OK(PARSE("--shard=2", "--unix=/run/psd/2/socket"));
    OK(options_apply_shards(&o, LIST, &e));
    ck_assert_str_eq(o.listen, "none");
}
END_TEST

START_TEST(options_win_over_the_list_of_shards)
{
    OK(PARSE("--listen=127.0.0.1:1"));
    OK(options_apply_shards(&o, "no list at all", &e));
    ck_assert_str_eq(o.listen, "127.0.0.1:1");
    OK(PARSE("--shard=1", "--shards=2"));
    OK(options_apply_shards(&o, LIST, &e));
    ck_assert_uint_eq(o.shards, 2);
    OK(PARSE("--shard=0"));
    OK(options_apply_shards(&o, "", &e)); /* set to nothing: not set */
    ck_assert_uint_eq(o.shards, 1);
}
END_TEST

START_TEST(the_environment_names_the_cluster_unless_an_option_does)
{
    OK(PARSE("--shard=0"));
    OK(options_apply_cluster(&o, NULL, &e));
    OK(options_apply_cluster(&o, "", &e)); /* set to nothing: not set */
    ck_assert_str_eq(o.cluster, "psd");
    OK(options_apply_cluster(&o, "lab", &e));
    ck_assert_str_eq(o.cluster, "lab");
    OK(PARSE("--cluster=mine"));
    OK(options_apply_cluster(&o, "lab", &e));
    ck_assert_str_eq(o.cluster, "mine");
}
END_TEST

START_TEST(a_shard_that_the_cluster_does_not_have_is_refused)
{
    OK(PARSE("--shard=3"));
    REFUSED(options_apply_shards(&o, LIST, &e));
    SAYS("PSD_SHARDS: there is no shard 3 in it: it lists 3");
    REFUSED(options_apply_shards(&o, NULL, &e));
    SAYS("shard 3 of 1");
    REFUSED(options_apply_tf_config(&o, TF("ps", "1"), &e)); /* --shard wins over it */
    SAYS("shard 3 of 1");
    OK(PARSE("--shard=0"));
    REFUSED(options_apply_shards(&o, "a:1,b", &e));
    SAYS("PSD_SHARDS[1]: 'b'");
}
END_TEST

/* ---- Reload ---- */

struct seen {
    char text[512];
};

static void
options_note(void *arg, const char *name, bool reloadable, const char *was, const char *is)
{
    struct seen *s = arg;
    size_t n = strlen(s->text);

    snprintf(s->text + n, sizeof s->text - n, "%s %s %s->%s; ", name, reloadable ? "now" : "restart", was, is);
}

START_TEST(reload_takes_what_is_reloadable_and_names_the_rest)
{
    struct options fresh = {0};
    struct seen seen = {""};
    char *argv[] = {"psd", "--log-level=debug", "--in-flight=512MiB", "--cluster=b", "--unix=/run/x"};

    OK(PARSE("--cluster=a"));
    OK(options_parse(&fresh, 5, argv, &e));
    options_compare(&o, &fresh, options_note, &seen);
    ck_assert_str_eq(seen.text, "unix restart (none)->/run/x; cluster restart a->b; in-flight now 256MiB->512MiB; "
                                "log-level now info->debug; ");
    options_reload(&o, &fresh);
    options_finish(&fresh);
    ck_assert_uint_eq(o.log_level, LOG_LEVEL_DEBUG);
    ck_assert_uint_eq(o.in_flight, 512 * MIB);
    ck_assert_str_eq(o.cluster, "a");
}
END_TEST

START_TEST(reload_takes_away_what_is_not_given_any_more)
{
    struct options fresh = {0};
    struct seen seen = {""};
    char *argv[] = {"psd", "--tokens=/b"};

    OK(PARSE("--tokens=/a", "--unix-users=alice", "--unix-users=bob:read", "--unix=/run/x", "--grace=7s"));
    OK(options_parse(&fresh, 2, argv, &e));
    options_compare(&o, &fresh, options_note, &seen);
    ck_assert_str_eq(seen.text,
                     "unix restart /run/x->(none); tokens now /a->/b; unix-users now alice,bob:read->(none); "
                     "grace now 7s->5s; ");
    options_reload(&o, &fresh);
    ck_assert_str_eq(o.tokens, "/b");
    ck_assert_ptr_null(o.unix_users);
    ck_assert_uint_eq(o.grace_ms, 5000);
    ck_assert_str_eq(o.unix_path, "/run/x");
    ck_assert(!options_given(&o, "unix-users"));
    seen.text[0] = '\0';
    options_compare(&o, &fresh, options_note, &seen);
    ck_assert_str_eq(seen.text, "unix restart /run/x->(none); ");
    options_finish(&fresh);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *tc = tcase_create("options");

    tcase_add_checked_fixture(tc, options_setup, options_teardown);
    tcase_add_test(tc, defaults_are_those_that_help_prints);
    tcase_add_test(tc, values_come_with_space_or_equals_sign_and_units);
    tcase_add_test(tc, log_levels_go_by_name);
    tcase_add_test(tc, listen_may_be_given_again);
    tcase_add_test(tc, http_tls_is_a_switch);
    tcase_add_loop_test(tc, bad_command_line_is_one_clear_sentence, 0, (int)ARRAY_LEN(bad));
    tcase_add_test(tc, file_gives_values_and_the_command_line_wins);
    tcase_add_loop_test(tc, bad_file_is_named_with_its_line, 0, (int)ARRAY_LEN(bad_files));
    tcase_add_loop_test(tc, a_file_means_the_same_whatever_wrote_it, 0, (int)ARRAY_LEN(alike));
    tcase_add_test(tc, within_quotes_a_hash_is_a_character);
    tcase_add_test(tc, a_file_that_is_no_text_is_refused);
    tcase_add_test(tc, help_names_every_option_with_default_and_wins_over_mistakes);
    tcase_add_test(tc, the_sample_configuration_is_a_configuration);
    tcase_add_test(tc, tf_config_says_which_shard_this_is);
    tcase_add_test(tc, options_win_over_tf_config);
    tcase_add_test(tc, tf_config_of_a_worker_or_garbage_is_refused);
    tcase_add_test(tc, the_list_of_shards_says_where_this_one_listens);
    tcase_add_test(tc, a_unix_socket_in_the_list_is_listened_on_once);
    tcase_add_test(tc, options_win_over_the_list_of_shards);
    tcase_add_test(tc, the_environment_names_the_cluster_unless_an_option_does);
    tcase_add_test(tc, a_shard_that_the_cluster_does_not_have_is_refused);
    tcase_add_test(tc, reload_takes_what_is_reloadable_and_names_the_rest);
    tcase_add_test(tc, reload_takes_away_what_is_not_given_any_more);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
