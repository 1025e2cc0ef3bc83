#include "common/cli/command.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/comma_locale.h"

enum color { COLOR_AUTO = 3, COLOR_ALWAYS, COLOR_NEVER };

struct command_settings {
    bool loud, quiet;
    int64_t workers, wait_ms, again_ms, grace_ms, spin_us, mode;
    uint64_t memory, at_least;
    double rate, share, margin;
    int color;
    const char *name, *where, *file, *directory, *address, *addresses;
    struct option_list env;
};

#define FIELD(field) .offset = offsetof(struct command_settings, field)

static const struct option_choice colors[] = {
    {"auto", COLOR_AUTO}, {"always", COLOR_ALWAYS}, {"never", COLOR_NEVER}, {NULL, 0}};
static const struct option_choice nowhere[] = {{"none", 0}, {NULL, 0}};

static const struct option table[] = {
    {.name = "loud", .kind = OPTION_FLAG, FIELD(loud), .help = "say more"},
    {.name = "quiet", .kind = OPTION_FLAG, FIELD(quiet), .commands = "list show", .help = "say less"},
    {.name = "workers",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "2",
     .min = 1,
     .max = 64,
     FIELD(workers),
     .help = "how many"},
    {.name = "at-least",
     .kind = OPTION_INT,
     .argument = "N",
     .usual = "none",
     .min = 3,
     FIELD(at_least),
     .help = "how many at least"},
    {.name = "wait",
     .kind = OPTION_SECONDS,
     .argument = "TIME",
     .fallback = "1.5",
     .max = 10000,
     FIELD(wait_ms),
     .section = "Times",
     .help = "how long"},
    {.name = "grace",
     .kind = OPTION_MS,
     .argument = "TIME",
     .fallback = "5s",
     .min = 1,
     .max = 3600 * 1000,
     .traits = OPTION_RELOADS,
     FIELD(grace_ms),
     .help = "how long then"},
    {.name = "spin", .kind = OPTION_US, .argument = "TIME", .max = 1000000, FIELD(spin_us), .help = "how long, busy"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .min = 8 * MIB,
     FIELD(memory),
     .section = "Other",
     .help = "how large"},
    {.name = "mode",
     .kind = OPTION_MODE,
     .argument = "MODE",
     .fallback = "0600",
     .max = 0777,
     FIELD(mode),
     .help = "who"},
    {.name = "rate", .kind = OPTION_POSITIVE, .argument = "R", FIELD(rate), .help = "how fast"},
    {.name = "share", .kind = OPTION_REAL, .argument = "X", .fallback = "0.9", .high = 1, FIELD(share), .help = "part"},
    {.name = "margin", .kind = OPTION_REAL, .argument = "X", .low = -1, FIELD(margin), .help = "beside it"},
    {.name = "color",
     .kind = OPTION_CHOICE,
     .argument = "WHEN",
     .fallback = "auto",
     .choices = colors,
     FIELD(color),
     .help = "in colors"},
    {.name = "where", .kind = OPTION_TEXT, .argument = "PLACE", FIELD(where), .help = "where"},
    {.name = "name", .kind = OPTION_NAME, .argument = "NAME", .fallback = "lab", FIELD(name), .help = "what"},
    {.name = "file", .kind = OPTION_FILE, .argument = "PATH", FIELD(file), .help = "a file"},
    {.name = "directory", .kind = OPTION_DIRECTORY, .argument = "DIR", FIELD(directory), .help = "a directory"},
    {.name = "address", .kind = OPTION_ADDRESS, .argument = "ADDRESS", FIELD(address), .help = "who it is"},
    {.name = "addresses",
     .kind = OPTION_ADDRESSES,
     .argument = "ADDRESS,...",
     .choices = nowhere,
     .traits = OPTION_REPEATS,
     FIELD(addresses),
     .help = "who they are"},
    {.name = "again",
     .kind = OPTION_SECONDS,
     .argument = "SECONDS",
     .bare = "2s",
     .min = 100,
     .max = 10000,
     FIELD(again_ms),
     .help = "and again"},
    {.name = "env", .kind = OPTION_LIST, .argument = "K=V", FIELD(env), .help = "variables"},
};

static const struct command_section shown[] = {
    {"Columns of show", (const struct command_entry[]){{"LAST SEQ", "what it says"}, {NULL, NULL}}}, {NULL, NULL}};

static const struct subcommand subcommands[] = {
    {.name = "list", .about = "list all of them"},
    {.name = "show", .operands = "NAME...", .suggest = "first= last=", .output = shown, .about = "show some"},
    {.name = "stop", .about = "stop it"},
};

static const struct command_section sections[] = {
    {"Exit status", (const struct command_entry[]){{"0", "it went well"}, {"1", "it did not"}, {NULL, NULL}}},
    {NULL, NULL},
};

#define TOOL .name = "tool", .manual = 1, .title = "a tool", .options = table, .options_len = ARRAY_LEN(table)

static const struct command bare = {TOOL, .about = "A tool."};
static const struct command words = {TOOL, .about = "A tool.", .operands = "WORD..."};
static const struct command program = {TOOL, .about = "A tool.", .operands = "program [args]", .program = true};
static const struct command several = {TOOL,
                                       .about = "A tool.\n\n  tool list --quiet\n\n.It does \\ several things.",
                                       .commands = subcommands,
                                       .output = "What show prints is no more than this.",
                                       .commands_len = ARRAY_LEN(subcommands),
                                       .sections = sections,
                                       .see_also = "others(1)"};

struct parsed {
    char *argv[96];
    int argc;
    struct command_settings s;
    struct command_line line;
    struct ps_error e;
};

/* argv from the words of a line; it is cut up. */
static enum ps_err
parse_words(const struct command *command, struct parsed *p, char *line)
{
    memset(p, 0xff, sizeof *p); /* no previous contents may be used */
    p->argc = 0;
    p->argv[p->argc++] = (char *)"tool";
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " "))
        p->argv[p->argc++] = word;
    p->argv[p->argc] = NULL;
    return command_parse(command, p->argc, p->argv, &p->s, &p->line, &p->e);
}

static char line_words[OPTION_LIST_MAX * 8 + 64];

static enum ps_err
command_parse_words(const struct command *command, struct parsed *p, const char *line)
{
    snprintf(line_words, sizeof line_words, "%s", line);
    return parse_words(command, p, line_words);
}

START_TEST(defaults_hold_when_nothing_is_given)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(&words, &p, ""), PS_OK);
    ck_assert(!p.s.loud && !p.s.quiet && p.line.asked == COMMAND_RUN);
    ck_assert_int_eq(p.s.workers, 2);
    ck_assert_uint_eq(p.s.at_least, 0); /* none, though 3 is the least that may be written */
    ck_assert_int_eq(p.s.wait_ms, 1500);
    ck_assert_int_eq(p.s.grace_ms, 5000);
    ck_assert_uint_eq(p.s.memory, 0);
    ck_assert_int_eq(p.s.mode, 0600);
    ck_assert_double_eq(p.s.share, 0.9);
    ck_assert_double_eq(p.s.rate, 0);
    ck_assert_int_eq(p.s.color, COLOR_AUTO);
    ck_assert_str_eq(p.s.name, "lab");
    ck_assert_ptr_null(p.s.where);
    ck_assert_ptr_null(p.s.address);
    ck_assert_uint_eq(p.s.env.len, 0);
    ck_assert_int_eq(p.line.len, 0);
    ck_assert(!command_given(&words, &p.line, "workers"));
}
END_TEST

START_TEST(both_forms_of_a_value_are_read)
{
    struct parsed p;

    ck_assert_int_eq(
        command_parse_words(&words, &p, "--workers 7 --wait=0.25 --name=a=b --where= --env A=1 --env=B=2 --loud"),
        PS_OK);
    ck_assert(p.s.loud);
    ck_assert_int_eq(p.s.workers, 7);
    ck_assert_int_eq(p.s.wait_ms, 250);
    ck_assert_str_eq(p.s.name, "a=b");
    ck_assert_str_eq(p.s.where, "");
    ck_assert_uint_eq(p.s.env.len, 2);
    ck_assert_str_eq(p.s.env.text[1], "B=2");
    ck_assert(command_given(&words, &p.line, "loud") && command_given(&words, &p.line, "env"));
    ck_assert(!command_given(&words, &p.line, "color"));
}
END_TEST

START_TEST(an_option_that_may_stand_bare_takes_a_number_that_follows)
{
    static const struct {
        const char *line;
        int64_t again_ms;
        int words;
    } all[] = {{"--again", 2000, 0},
               {"--again list", 2000, 1},
               {"--again 5 list", 5000, 1},
               {"--again=0.5 7", 500, 1},
               {"--again 500ms", 500, 0},
               {"--again --loud", 2000, 0},
               {"list", 0, 1}};
    struct parsed p;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ck_assert_int_eq(command_parse_words(&words, &p, all[i].line), PS_OK);
        ck_assert_int_eq(p.s.again_ms, all[i].again_ms);
        ck_assert_int_eq(p.line.len, all[i].words);
    }
    ck_assert_int_eq(command_parse_words(&words, &p, "--again 0.01"), PS_ERR_INVALID);
}
END_TEST

START_TEST(every_kind_is_read_into_its_field)
{
    struct parsed p;

    ck_assert_int_eq(
        command_parse_words(&words, &p,
                            "--wait 500ms --grace 200 --spin 1ms --memory 1.5gib --mode 640 --rate 1e-3 --share 0 "
                            "--margin -0.5 --color never --file ./a --directory /b --address [::1]:7 "
                            "--addresses a:1,unix:/s"),
        PS_OK);
    ck_assert_int_eq(p.s.wait_ms, 500);
    ck_assert_int_eq(p.s.grace_ms, 200);
    ck_assert_int_eq(p.s.spin_us, 1000);
    ck_assert_uint_eq(p.s.memory, 1536 * MIB);
    ck_assert_int_eq(p.s.mode, 0640);
    ck_assert_double_eq(p.s.rate, 1e-3);
    ck_assert_double_eq(p.s.share, 0);
    ck_assert_double_eq(p.s.margin, -0.5);
    ck_assert_int_eq(p.s.color, COLOR_NEVER);
    ck_assert_str_eq(p.s.file, "./a");
    ck_assert_str_eq(p.s.directory, "/b");
    ck_assert_str_eq(p.s.address, "[::1]:7");
    ck_assert_str_eq(p.s.addresses, "a:1,unix:/s");
    ck_assert_int_eq(command_parse_words(&words, &p, "--addresses none --wait 10 --memory 8MiB"), PS_OK);
    ck_assert_str_eq(p.s.addresses, "none");
    ck_assert_int_eq(p.s.wait_ms, 10000);
}
END_TEST

START_TEST(words_may_stand_among_options)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(&words, &p, "status --loud extra --workers 3 - -- --name"), PS_OK);
    ck_assert_int_eq(p.line.len, 4);
    ck_assert_str_eq(p.line.words[0], "status");
    ck_assert_str_eq(p.line.words[1], "extra");
    ck_assert_str_eq(p.line.words[2], "-");
    ck_assert_str_eq(p.line.words[3], "--name");
    ck_assert_ptr_null(p.line.words[4]);
    ck_assert_int_eq(p.s.workers, 3);
    ck_assert(p.s.loud);
}
END_TEST

START_TEST(a_program_keeps_its_own_options)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(&program, &p, "--workers 3 -- train --workers 9 -- --loud"), PS_OK);
    ck_assert_int_eq(p.s.workers, 3);
    ck_assert(!p.s.loud);
    ck_assert_int_eq(p.line.len, 5);
    ck_assert_str_eq(p.line.words[0], "train");
    ck_assert_str_eq(p.line.words[4], "--loud");
    ck_assert_ptr_null(p.line.words[5]);
    ck_assert_int_eq(command_parse_words(&program, &p, "--loud train --workers 9 --help"), PS_OK);
    ck_assert(p.s.loud && p.line.asked == COMMAND_RUN);
    ck_assert_int_eq(p.s.workers, 2);
    ck_assert_int_eq(p.line.len, 4);
}
END_TEST

START_TEST(a_subcommand_takes_its_words_and_its_options)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(&several, &p, "--quiet list --loud"), PS_OK);
    ck_assert_ptr_eq(p.line.command, &subcommands[0]);
    ck_assert(p.s.loud && p.s.quiet && p.line.len == 0);
    ck_assert_int_eq(command_parse_words(&several, &p, "show a --quiet list"), PS_OK);
    ck_assert_ptr_eq(p.line.command, &subcommands[1]);
    ck_assert_int_eq(p.line.len, 2);
    ck_assert_str_eq(p.line.words[1], "list");
}
END_TEST

START_TEST(help_and_a_subcommand_is_its_help)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(&several, &p, "help show"), PS_OK);
    ck_assert(p.line.asked == COMMAND_HELP && p.line.command == &subcommands[1]);
    ck_assert_int_eq(command_parse_words(&several, &p, "help"), PS_OK);
    ck_assert(p.line.asked == COMMAND_HELP && p.line.command == NULL);
    ck_assert_int_eq(command_parse_words(&several, &p, "--help show"), PS_OK);
    ck_assert(p.line.asked == COMMAND_HELP && p.line.command == &subcommands[1]);
    ck_assert_int_eq(command_parse_words(&several, &p, "-h nonsense"), PS_OK);
    ck_assert(p.line.asked == COMMAND_HELP && p.line.command == NULL);
    ck_assert_int_eq(command_parse_words(&bare, &p, "help"), PS_OK);
    ck_assert(p.line.asked == COMMAND_HELP);
    ck_assert_int_eq(command_parse_words(&words, &p, "help"), PS_OK);
    ck_assert(p.line.asked == COMMAND_RUN && p.line.len == 1); /* a word like another */
    ck_assert_int_eq(command_parse_words(&several, &p, "show help"), PS_OK);
    ck_assert(p.line.asked == COMMAND_RUN && p.line.len == 1); /* a word like another */
}
END_TEST

struct command_mistake {
    const struct command *command;
    const char *line, *says;
};

static const struct command_mistake bad[] = {
    {&words, "--wrokers 2", "unknown option '--wrokers'; tool --help lists them; did you mean --workers?"},
    {&words, "--wokers=2", "unknown option '--wokers=2'; tool --help lists them; did you mean --workers?"},
    {&words, "-x", "unknown option '-x'"},
    {&words, "-loud", "unknown option '-loud'"},
    {&words, "--work 2", "unknown option '--work'"},
    {&words, "--hlep", "unknown option '--hlep'; tool --help lists them; did you mean --help?"},
    {&words, "-version", "unknown option '-version'; tool --help lists them; did you mean --version?"},
    {&words, "--loud=yes", "--loud takes no value"},
    {&words, "--help=yes", "unknown option '--help=yes'"},
    {&words, "--workers", "--workers: expected a value (N) after it"},
    {&words, "--workers two", "--workers: expected a whole number, got 'two'"},
    {&words, "--workers 2x", "--workers: expected a whole number, got '2x'"},
    {&words, "--workers=", "--workers: expected a whole number, got ''"},
    {&words, "--workers 0", "--workers: expected a number from 1 to 64, got '0'"},
    {&words, "--workers 65", "--workers: expected a number from 1 to 64, got '65'"},
    {&words, "--workers -1", "--workers: expected a number from 1 to 64, got '-1'"},
    {&words, "--workers 99999999999999999999", "--workers: expected a number from 1 to 64"},
    {&words, "--at-least 2", "--at-least: expected a number of at least 3, got '2'"},
    {&words, "--at-least 99999999999999999999", "--at-least: expected a whole number"},
    {&words, "--wait soon", "--wait: expected a time such as 5s or 500ms, got 'soon'"},
    {&words, "--wait -1", "--wait: expected a time such as 5s or 500ms, got '-1'"},
    {&words, "--wait 10.1", "--wait: expected a time from 0 to 10s, got '10.1'"},
    {&words, "--wait nan", "--wait: expected a time such as"},
    {&words, "--wait 5MiB", "--wait: expected a time such as"},
    {&words, "--grace 0", "--grace: expected a time from 1ms to 1h, got '0'"},
    {&words, "--grace 61m", "--grace: expected a time from 1ms to 1h, got '61m'"},
    {&words, "--spin long", "--spin: expected a time such as 50us, got 'long'"},
    {&words, "--spin 2s", "--spin: expected a time from 0 to 1s, got '2s'"},
    {&words, "--memory lots", "--memory: expected a size such as 64MiB, got 'lots'"},
    {&words, "--memory 5s", "--memory: expected a size such as 64MiB, got '5s' (units: KiB, MiB, GiB, TiB)"},
    {&words, "--wait 5sec", "--wait: expected a time such as 5s or 500ms, got '5sec' (units: ms, s, m, h, d)"},
    {&words, "--memory 99999999TiB", "--memory: expected a size such as 64MiB, got '99999999TiB'"},
    {&words, "--memory 1MiB", "--memory: expected a size of at least 8MiB, got '1MiB'"},
    {&words, "--mode 888", "--mode: expected a mode such as 0660, got '888'"},
    {&words, "--mode 1777", "--mode: expected a mode from 0000 to 0777, got '1777'"},
    {&words, "--rate 0", "--rate: expected a number above 0, got '0'"},
    {&words, "--rate inf", "--rate: expected a number, got 'inf'"},
    {&words, "--share 1.1", "--share: expected a number from 0 to 1, got '1.1'"},
    {&words, "--margin -2", "--margin: expected a number of at least -1, got '-2'"},
    {&words, "--color loud", "--color: expected one of auto, always, never, got 'loud'"},
    {&words, "--color nevr", "--color: expected one of auto, always, never, got 'nevr'; did you mean never?"},
    {&words, "--name=", "--name: it may not be empty"},
    {&words, "--file=", "--file: it may not be empty"},
    {&words, "--directory=", "--directory: it may not be empty"},
    {&words, "--address nowhere", "--address: "},
    {&words, "--address a:1,b:2", "--address: "},
    {&words, "--address none", "--address: "},
    {&words, "--addresses a:1,", "--addresses: "},
    {&words, "--addresses none,a:1", "--addresses: "},
    {&bare, "word", "unexpected 'word': tool takes options alone"},
    {&bare, "-- word", "unexpected 'word'"},
    {&several, "", "expected a command: list, show or stop"},
    {&several, "--loud", "expected a command: list, show or stop"},
    {&several, "lost", "unknown command 'lost', it is one of: list, show or stop; did you mean list?"},
    {&several, "help lost", "unknown command 'lost', it is one of: list, show or stop; did you mean list?"},
    {&several, "help list all", "unexpected 'all' after 'list'; tool help list says what it takes"},
    {&several, "help help", "unknown command 'help'"},
    {&several, "list all", "unexpected 'all' after 'list'"},
    {&several, "stop --quiet", "--quiet is not for stop; it is for: list show"},
};

START_TEST(a_mistake_names_the_option_and_what_was_expected)
{
    struct parsed p;

    ck_assert_int_eq(command_parse_words(bad[_i].command, &p, bad[_i].line), PS_ERR_INVALID);
    ck_assert_msg(strstr(p.e.text, bad[_i].says) == p.e.text, "'%s' does not say '%s'", p.e.text, bad[_i].says);
}
END_TEST

START_TEST(a_list_is_bounded)
{
    char line[OPTION_LIST_MAX * 8 + 64] = "";
    struct parsed p;

    for (int i = 0; i < OPTION_LIST_MAX; i++)
        strcat(line, "--env=A ");
    ck_assert_int_eq(command_parse_words(&words, &p, line), PS_OK);
    strcat(line, "--env=A");
    ck_assert_int_eq(command_parse_words(&words, &p, line), PS_ERR_INVALID);
    ck_assert_str_eq(p.e.text, "--env: given more than 64 times");
}
END_TEST

/* ---- what is printed ---- */

/* The output of a command line; the caller frees it. */
static char *
command_answer_text(const struct command *command, const char *line)
{
    struct parsed p;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    ck_assert_int_eq(command_parse_words(command, &p, line), PS_OK);
    ck_assert_int_ne(p.line.asked, COMMAND_RUN);
    ck_assert_int_eq(command_answer(command, &p.line, out), 0);
    fclose(out);
    return text;
}

static void
command_holds(const char *text, const char *wanted)
{
    ck_assert_msg(strstr(text, wanted) != NULL, "no '%s' in:\n%s", wanted, text);
}

START_TEST(help_lists_every_option_with_its_default)
{
    char *text = command_answer_text(&words, "--workers 3 --help --bad"), option[64];

    ck_assert(strstr(text, "usage: tool [options] WORD...\n") == text);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        snprintf(option, sizeof option, "\n  --%s%s%s", table[i].name,
                 table[i].argument == NULL ? ""
                 : table[i].bare != NULL   ? "[="
                                           : " ",
                 table[i].argument != NULL ? table[i].argument : "");
        command_holds(text, option);
        command_holds(text, table[i].help);
    }
    command_holds(text, "how long (default 1.5; without a unit: seconds)\n");
    command_holds(text, "  --again[=SECONDS] ");
    command_holds(text, "how long then (default 5s; without a unit: milliseconds; read again on");
    command_holds(text, "how large (without a unit: bytes)\n");
    command_holds(text, "how long, busy (without a unit: microseconds)\n");
    command_holds(text, "how many at least (default none)\n");
    command_holds(text, "variables (may be given many times)\n");
    command_holds(text, "\n\nTimes:\n  --wait TIME");
    command_holds(text, "  --version ");
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
        ck_assert_int_le(end - at, 100);
    free(text);
}
END_TEST

START_TEST(help_lists_commands_and_sections)
{
    char *text = command_answer_text(&several, "-h");

    ck_assert(strstr(text, "usage: tool [options] command [...]\n") == text);
    command_holds(text, "\n  tool list --quiet\n\n.It does");
    command_holds(text,
                  "\nCommands:\n  list                    list all of them\n  show NAME...            show some\n");
    command_holds(text, "for list, show: say less\n");
    command_holds(text, "\nExit status:\n  0                       it went well\n");
    free(text);
}
END_TEST

START_TEST(help_of_a_subcommand_lists_what_is_for_it)
{
    char *text = command_answer_text(&several, "stop --help");

    ck_assert(strstr(text, "usage: tool stop [options]\n\nStop it.\n") == text);
    command_holds(text, "--loud");
    ck_assert(strstr(text, "--quiet") == NULL && strstr(text, "Exit status") == NULL);
    free(text);
    text = command_answer_text(&several, "show --help");
    ck_assert(strstr(text, "usage: tool show [options] NAME...\n") == text);
    command_holds(text, "  --quiet                 say less\n");
    free(text);
}
END_TEST

START_TEST(the_version_is_one_line)
{
    char *text = command_answer_text(&program, "--version");

    ck_assert_str_eq(text, "tool " PSD_VERSION "\n");
    free(text);
}
END_TEST

START_TEST(the_man_page_has_all_that_help_has)
{
    char *text = command_answer_text(&several, "--man"), option[64];

    ck_assert(strncmp(text, ".TH TOOL 1 ", 11) == 0);
    command_holds(text, "\n.SH NAME\ntool \\- a tool\n.SH SYNOPSIS\n");
    command_holds(text, "\n.nf\ntool list \\-\\-quiet\n.fi\n.RE\n.PP\n\\&.It does \\e several things");
    command_holds(text, "\n.SH COMMANDS\n.TP\n\\fBlist\\fR\nlist all of them\n.TP\n\\fBshow\\fR \\fINAME...\\fR\n");
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int at = snprintf(option, sizeof option, "\n.TP\n\\fB\\-\\-");

        for (const char *name = table[i].name; *name != '\0'; name++)
            at += snprintf(option + at, sizeof option - (size_t)at, *name == '-' ? "\\-" : "%c", *name);
        command_holds(text, option);
    }
    command_holds(
        text, "\n.SS Times\n.TP\n\\fB\\-\\-wait\\fR \\fITIME\\fR\nhow long (default 1.5; without a unit: seconds)\n");
    command_holds(text, "\nfor list, show: say less\n");
    command_holds(text, "\n.SH EXIT STATUS\n.TP\n\\fB0\\fR\nit went well\n");
    command_holds(text, "\n.SH SEE ALSO\nothers(1)\n");
    free(text);
}
END_TEST

/* That bash completes with it is seen in tests/system/test_manual.sh. */
START_TEST(bash_knows_commands_options_choices_and_paths)
{
    char *text = command_answer_text(&several, "--completion=bash");

    ck_assert(strncmp(text, "# bash completion for tool", 26) == 0);
    command_holds(text, "compgen -W 'list show stop' -- \"$cur\"");
    command_holds(text, "        list) options='--loud --quiet --workers ");
    command_holds(text, "        stop) options='--loud --workers ");
    command_holds(text, "        --color)\n                mapfile -t COMPREPLY < <(compgen -W 'auto always never'");
    command_holds(text, "        --addresses)\n                mapfile -t COMPREPLY < <(compgen -W 'none'");
    command_holds(
        text,
        "        --workers|--at-least|--wait|--grace|--spin|--memory|--mode|--rate|--share|--margin|--where|--name|"
        "--address|--env)\n                return ;;\n");
    command_holds(text, "[[ ${COMP_WORDS[at]} == 'show' ]]; then\n");
    command_holds(text, "compgen -W 'first= last=' -- ");
    command_holds(text, "(compgen -f -- \"$cur\")");
    command_holds(text, "(compgen -d -- \"$cur\")");
    command_holds(text, "\ncomplete -F _tool tool\n");
    free(text);
}
END_TEST

START_TEST(zsh_has_a_line_for_each_option)
{
    char *text = command_answer_text(&several, "--completion=zsh"), option[96];

    ck_assert(strncmp(text, "#compdef tool\n", 14) == 0);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        snprintf(option, sizeof option, "--%s%s[%s]", table[i].name,
                 table[i].bare != NULL       ? "=-"
                 : table[i].argument != NULL ? "="
                                             : "",
                 table[i].help);
        command_holds(text, option);
    }
    command_holds(text, "'--color=[in colors]:WHEN:(auto always never)'\n");
    command_holds(text, "'*--env=[variables]:K=V:'\n");
    command_holds(text, "'--file=[a file]:PATH:_files'\n");
    command_holds(text, "'show:show some'\n");
    command_holds(text, "        show) compadd -S '' -- first= last= ;;\n");
    free(text);
}
END_TEST

START_TEST(output_is_explained_by_the_subcommands_help_and_the_manual)
{
    char *all = command_answer_text(&several, "--help"), *own = command_answer_text(&several, "show --help"),
         *man = command_answer_text(&several, "--man");

    ck_assert_ptr_null(strstr(all, "LAST SEQ"));
    command_holds(own, "\nColumns of show:\n  LAST SEQ                what it says\n");
    command_holds(
        man, ".SH OUTPUT\nWhat show prints is no more than this.\n.SS Columns of show\n.TP\n\\fBLAST SEQ\\fR\nwhat it "
             "says\n");
    free(all);
    free(own);
    free(man);
}
END_TEST

START_TEST(a_full_disk_is_a_failure)
{
    struct command_line line = {.asked = COMMAND_HELP};
    FILE *full = fopen("/dev/full", "w");

    ck_assert_ptr_nonnull(full);
    ck_assert_int_ne(command_answer(&several, &line, full), 0);
    fclose(full);
}
END_TEST

START_TEST(a_decimal_comma_changes_no_number)
{
    static const struct option rate = {.kind = OPTION_REAL};
    double value = 0;

    if (!comma_locale())
        return;
    ck_assert_int_eq(option_store(&rate, "--rate", "0.5", &value, NULL), PS_OK);
    ck_assert(value == 0.5);
    ck_assert_int_eq(option_store(&rate, "--rate", "0,5", &value, NULL), PS_ERR_INVALID);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("command");
    TCase *t = tcase_create("command");

    tcase_add_test(t, defaults_hold_when_nothing_is_given);
    tcase_add_test(t, both_forms_of_a_value_are_read);
    tcase_add_test(t, an_option_that_may_stand_bare_takes_a_number_that_follows);
    tcase_add_test(t, every_kind_is_read_into_its_field);
    tcase_add_test(t, a_decimal_comma_changes_no_number);
    tcase_add_test(t, words_may_stand_among_options);
    tcase_add_test(t, a_program_keeps_its_own_options);
    tcase_add_test(t, a_subcommand_takes_its_words_and_its_options);
    tcase_add_test(t, help_and_a_subcommand_is_its_help);
    tcase_add_loop_test(t, a_mistake_names_the_option_and_what_was_expected, 0, ARRAY_LEN(bad));
    tcase_add_test(t, a_list_is_bounded);
    tcase_add_test(t, help_lists_every_option_with_its_default);
    tcase_add_test(t, help_lists_commands_and_sections);
    tcase_add_test(t, help_of_a_subcommand_lists_what_is_for_it);
    tcase_add_test(t, the_version_is_one_line);
    tcase_add_test(t, the_man_page_has_all_that_help_has);
    tcase_add_test(t, bash_knows_commands_options_choices_and_paths);
    tcase_add_test(t, zsh_has_a_line_for_each_option);
    tcase_add_test(t, output_is_explained_by_the_subcommands_help_and_the_manual);
    tcase_add_test(t, a_full_disk_is_a_failure);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
