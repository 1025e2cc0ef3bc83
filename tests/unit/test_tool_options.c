#include "client/tools/options.h"

#include <string.h>

#include "check_main.h"

struct settings {
    bool loud;
    int64_t workers, wait_ms;
    const char *name, *where;
    struct option_list env;
};

#define FIELD(field) offsetof(struct settings, field)

static const struct option table[] = {
    {.name = "loud", .kind = OPTION_FLAG, .offset = FIELD(loud), .help = "say more"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "2",
     .min = 1,
     .max = 64,
     .offset = FIELD(workers),
     .help = "how many"},
    {.name = "wait",
     .kind = OPTION_SECONDS,
     .argument = "SEC",
     .fallback = "1.5",
     .max = 10000,
     .offset = FIELD(wait_ms),
     .help = "how long"},
    {.name = "name", .kind = OPTION_TEXT, .argument = "NAME", .fallback = "lab", .offset = FIELD(name), .help = "what"},
    {.name = "where", .kind = OPTION_TEXT, .argument = "PLACE", .offset = FIELD(where), .help = "where"},
    {.name = "env", .kind = OPTION_LIST, .argument = "K=V", .offset = FIELD(env), .help = "variables"},
};

static const struct option_command words = {
    .name = "tool", .usage = "[options] word", .about = "A tool.", .options = table, .options_len = ARRAY_LEN(table)};
static const struct option_command program = {.name = "tool",
                                              .usage = "[options] -- program",
                                              .about = "A tool.",
                                              .options = table,
                                              .options_len = ARRAY_LEN(table),
                                              .program = true};

struct parsed {
    char *argv[96];
    int argc;
    struct settings s;
    struct option_rest rest;
    struct ps_error e;
    bool help;
};

/* argv from the words of a line. */
static enum ps_err
parse(const struct option_command *command, struct parsed *p, char *line)
{
    memset(p, 0xff, sizeof *p); /* nothing may be taken from what was there */
    p->argc = 0;
    p->argv[p->argc++] = (char *)"tool";
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " "))
        p->argv[p->argc++] = word;
    p->argv[p->argc] = NULL;
    return options_parse(command, p->argc, p->argv, &p->s, &p->rest, &p->help, &p->e);
}

START_TEST(defaults_hold_when_nothing_is_given)
{
    char line[] = "";
    struct parsed p;

    ck_assert_int_eq(parse(&words, &p, line), PS_OK);
    ck_assert(!p.s.loud && !p.help);
    ck_assert_int_eq(p.s.workers, 2);
    ck_assert_int_eq(p.s.wait_ms, 1500);
    ck_assert_str_eq(p.s.name, "lab");
    ck_assert_ptr_null(p.s.where);
    ck_assert_uint_eq(p.s.env.len, 0);
    ck_assert_int_eq(p.rest.len, 0);
}
END_TEST

START_TEST(both_forms_of_a_value_are_read)
{
    char line[] = "--workers 7 --wait=0.25 --name=a=b --where= --env A=1 --env=B=2 --loud";
    struct parsed p;

    ck_assert_int_eq(parse(&words, &p, line), PS_OK);
    ck_assert(p.s.loud);
    ck_assert_int_eq(p.s.workers, 7);
    ck_assert_int_eq(p.s.wait_ms, 250);
    ck_assert_str_eq(p.s.name, "a=b");
    ck_assert_str_eq(p.s.where, "");
    ck_assert_uint_eq(p.s.env.len, 2);
    ck_assert_str_eq(p.s.env.text[1], "B=2");
}
END_TEST

START_TEST(words_may_stand_among_options)
{
    char line[] = "status --loud extra --workers 3 -- --name";
    struct parsed p;

    ck_assert_int_eq(parse(&words, &p, line), PS_OK);
    ck_assert_int_eq(p.rest.len, 3);
    ck_assert_str_eq(p.rest.words[0], "status");
    ck_assert_str_eq(p.rest.words[1], "extra");
    ck_assert_str_eq(p.rest.words[2], "--name");
    ck_assert_int_eq(p.s.workers, 3);
    ck_assert(p.s.loud);
}
END_TEST

START_TEST(a_program_keeps_its_own_options)
{
    char dashes[] = "--workers 3 -- train --workers 9 -- --loud", bare[] = "--loud train --workers 9";
    struct parsed p;

    ck_assert_int_eq(parse(&program, &p, dashes), PS_OK);
    ck_assert_int_eq(p.s.workers, 3);
    ck_assert(!p.s.loud);
    ck_assert_int_eq(p.rest.len, 5);
    ck_assert_str_eq(p.rest.words[0], "train");
    ck_assert_str_eq(p.rest.words[4], "--loud");
    ck_assert_int_eq(parse(&program, &p, bare), PS_OK);
    ck_assert(p.s.loud);
    ck_assert_int_eq(p.s.workers, 2);
    ck_assert_int_eq(p.rest.len, 3);
}
END_TEST

/* Line, and what the sentence must say. */
static const char *const bad[][2] = {
    {"--wrokers 2", "unknown option '--wrokers'"},
    {"-x", "unknown option '-x'"},
    {"-loud", "unknown option '-loud'"},
    {"--work 2", "unknown option '--work'"},
    {"--loud=yes", "--loud takes no value"},
    {"--workers", "--workers: expected a value (N)"},
    {"--workers two", "--workers: expected a whole number, got 'two'"},
    {"--workers 2x", "--workers: expected a whole number"},
    {"--workers=", "--workers: expected a whole number, got ''"},
    {"--workers 0", "--workers: expected a number from 1 to 64, got '0'"},
    {"--workers 65", "--workers: expected a number from 1 to 64"},
    {"--workers 99999999999999999999", "--workers: expected a number from 1 to 64"},
    {"--wait soon", "--wait: expected seconds, got 'soon'"},
    {"--wait -1", "--wait: expected 0 to 10 seconds"},
    {"--wait 10.1", "--wait: expected 0 to 10 seconds"},
    {"--wait nan", "--wait: expected seconds"},
};

START_TEST(a_mistake_names_the_option)
{
    char line[128];
    struct parsed p;

    snprintf(line, sizeof line, "%s", bad[_i][0]);
    ck_assert_int_eq(parse(&words, &p, line), PS_ERR_INVALID);
    ck_assert_msg(strstr(p.e.text, bad[_i][1]) != NULL, "'%s' does not say '%s'", p.e.text, bad[_i][1]);
}
END_TEST

START_TEST(a_list_is_bounded)
{
    char line[OPTION_LIST_MAX * 8 + 64] = "";
    struct parsed p;

    for (int i = 0; i < OPTION_LIST_MAX; i++)
        strcat(line, "--env=A ");
    ck_assert_int_eq(parse(&words, &p, line), PS_OK);
    line[0] = '\0';
    for (int i = 0; i < OPTION_LIST_MAX + 1; i++)
        strcat(line, "--env=A ");
    ck_assert_int_eq(parse(&words, &p, line), PS_ERR_INVALID);
}
END_TEST

START_TEST(help_lists_every_option_with_its_default)
{
    char line[] = "--workers 3 --help --bad", *text;
    struct parsed p;
    size_t size;
    FILE *out;

    ck_assert_int_eq(parse(&words, &p, line), PS_OK);
    ck_assert(p.help);
    out = open_memstream(&text, &size);
    options_help(&words, out);
    fclose(out);
    ck_assert(strstr(text, "usage: tool [options] word\n") == text);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        ck_assert(strstr(text, table[i].name) != NULL && strstr(text, table[i].help) != NULL);
    ck_assert(strstr(text, "how long (default 1.5)") != NULL);
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
        ck_assert_int_le(end - at, 100);
    free(text);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("tool options");
    TCase *t = tcase_create("options");

    tcase_add_test(t, defaults_hold_when_nothing_is_given);
    tcase_add_test(t, both_forms_of_a_value_are_read);
    tcase_add_test(t, words_may_stand_among_options);
    tcase_add_test(t, a_program_keeps_its_own_options);
    tcase_add_loop_test(t, a_mistake_names_the_option, 0, ARRAY_LEN(bad));
    tcase_add_test(t, a_list_is_bounded);
    tcase_add_test(t, help_lists_every_option_with_its_default);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
