#include "client/tools/psrun/host_spec.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

/* A text, whether a port is allowed, and login, name and port; NULL login: refused. */
static const struct {
    const char *text;
    bool address;
    const char *login, *name;
    uint16_t port;
} hosts[] = {
    {"hostb", false, "hostb", "hostb", 0},
    {"node-1.rack_2.lab", false, "node-1.rack_2.lab", "node-1.rack_2.lab", 0},
    {"ada@hostb", false, "ada@hostb", "hostb", 0},
    {"10.0.0.7", false, "10.0.0.7", "10.0.0.7", 0},
    {"[fe80::1]", false, "fe80::1", "fe80::1", 0},
    {"fe80::1%eth0", false, "fe80::1%eth0", "fe80::1%eth0", 0},
    {"ada@[::1]", false, "ada@::1", "::1", 0},
    {"hostb:22", false, NULL, NULL, 0},
    {"", false, NULL, NULL, 0},
    {"@hostb", false, NULL, NULL, 0},
    {"ada@", false, NULL, NULL, 0},
    {"-oProxyCommand=x", false, NULL, NULL, 0},
    {"ada@-x", false, NULL, NULL, 0},
    {"-l@hostb", false, NULL, NULL, 0},
    {"host b", false, NULL, NULL, 0},
    {"host;reboot", false, NULL, NULL, 0},
    {"$(reboot)", false, NULL, NULL, 0},
    {"`reboot`", false, NULL, NULL, 0},
    {"host\nb", false, NULL, NULL, 0},
    {"a'b@hostb", false, NULL, NULL, 0},
    {"h\xc3\xb6st", false, NULL, NULL, 0},
    {"hostb:7420", true, "hostb", "hostb", 7420},
    {"ada@hostb:0", true, "ada@hostb", "hostb", 0},
    {"ada@[fe80::1]:2222", true, "ada@fe80::1", "fe80::1", 2222},
    {"hostb", true, NULL, NULL, 0},
    {"fe80::1", true, NULL, NULL, 0},
    {"hostb:65536", true, NULL, NULL, 0},
    {"unix:/run/psd", true, NULL, NULL, 0},
    {"-x:22", true, NULL, NULL, 0},
};

START_TEST(a_host_is_parsed_or_refused)
{
    struct ps_error e;
    struct host_spec host;
    enum ps_err err = hosts[_i].address ? host_spec_parse_address("list[3]", hosts[_i].text, &host, &e)
                                        : host_spec_parse("list[3]", hosts[_i].text, &host, &e);

    if (hosts[_i].login == NULL) {
        ck_assert_int_eq(err, PS_ERR_INVALID);
        ck_assert(strncmp(e.text, "list[3]: ", 9) == 0);
        return;
    }
    ck_assert_int_eq(err, PS_OK);
    ck_assert_str_eq(host.login, hosts[_i].login);
    ck_assert_str_eq(host.name, hosts[_i].name);
    ck_assert_uint_eq(host.port, hosts[_i].port);
}
END_TEST

START_TEST(a_name_that_is_too_long_is_refused)
{
    char text[300];
    struct host_spec host;

    memset(text, 'a', sizeof text);
    text[255] = '\0';
    ck_assert_int_eq(host_spec_parse("list[0]", text, &host, NULL), PS_OK);
    text[255] = 'a';
    text[256] = '\0';
    ck_assert_int_eq(host_spec_parse("list[0]", text, &host, NULL), PS_ERR_INVALID);
}
END_TEST

START_TEST(this_machine_is_known_by_its_names)
{
    char address[ADDRESS_MAX];

    ck_assert(host_spec_is_here("localhost", "here.lab") && host_spec_is_here("127.0.0.1", "") &&
              host_spec_is_here("::1", ""));
    ck_assert(host_spec_is_here("here.lab", "here.lab") && host_spec_is_here("HERE", "here.lab"));
    ck_assert(!host_spec_is_here("her", "here.lab") && !host_spec_is_here("here.other", "here.lab"));
    ck_assert(!host_spec_is_here("127.0.0.2", "here.lab") && !host_spec_is_here("there", ""));
    ck_assert(host_spec_is_loopback("127.0.1.1") && host_spec_is_loopback("LOCALHOST") && host_spec_is_loopback("::1"));
    ck_assert(!host_spec_is_loopback("12.7.0.0") && !host_spec_is_loopback("here.lab"));
    host_spec_address("fe80::1", 22, address);
    ck_assert_str_eq(address, "[fe80::1]:22");
    host_spec_address("hostb", 65535, address);
    ck_assert_str_eq(address, "hostb:65535");
}
END_TEST

/* The words that a real shell makes of the quoted text. */
static void
shell_gives_back(const char *text)
{
    char command[4096], got[2048];
    struct strlist quoted = {0};
    size_t len;
    FILE *out;

    host_spec_quote(text, &quoted);
    snprintf(command, sizeof command, "printf %%s %s", quoted.text[0]);
    out = popen(command, "r");
    ck_assert_ptr_nonnull(out);
    len = fread(got, 1, sizeof got - 1, out);
    got[len] = '\0';
    ck_assert_int_eq(pclose(out), 0);
    ck_assert_str_eq(got, text);
    strlist_free(&quoted);
}

START_TEST(a_quoted_word_is_one_word_to_a_shell)
{
    char all[256], twice[3] = "";

    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    shell_gives_back(all);
    shell_gives_back("");
    shell_gives_back("'");
    shell_gives_back("''''; exit 1; '");
    shell_gives_back("a 'b' \"c\" $HOME `id` $(id) \\ ! ~ * ? [x] {a,b} # & | ; < > (\n)\t");
    for (const char *c = " '\"\\$`!*?[]{}()<>|&;~#=%^\n\t"; *c != '\0'; c++) {
        twice[0] = twice[1] = *c;
        shell_gives_back(twice);
    }
}
END_TEST

/* The words that ssh gets, one a line, when `command` is a shell function that prints them. */
static void
run_ssh_argv(const char *command, char *out, size_t size)
{
    struct strlist argv = {0};
    char line[4096];
    size_t len;
    FILE *pipe;

    host_spec_ssh_argv(&(struct host_spec_ssh){.command = command,
                                               .connect_ms = 2500,
                                               .silence_ms = 60000,
                                               .login = "ada@hostb",
                                               .psrun = "/opt/my psd/psrun"},
                       &argv);
    ck_assert_str_eq(argv.text[0], "sh");
    ck_assert_str_eq(argv.text[1], "-c");
    snprintf(line, sizeof line, "set --");
    for (size_t i = 4; i < argv.len; i++) {
        struct strlist quoted = {0};

        host_spec_quote(argv.text[i], &quoted);
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", quoted.text[0]);
        strlist_free(&quoted);
    }
    snprintf(line + strlen(line), sizeof line - strlen(line), "; %s", argv.text[2]);
    pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    len = fread(out, 1, size - 1, pipe);
    out[len] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    strlist_free(&argv);
}

START_TEST(ssh_gets_its_options_the_host_and_one_command)
{
    static const char end[] = "\nada@hostb\nexec '/opt/my psd/psrun' @remote\n";
    char got[4096];

    run_ssh_argv("printf '%s\\n' -i 'a key'", got, sizeof got);
    ck_assert(strncmp(got, "-i\na key\n-o\n", 12) == 0); /* the user's come first: ssh takes the first */
    ck_assert_ptr_nonnull(strstr(got, "\nBatchMode=yes\n"));
    ck_assert_ptr_nonnull(strstr(got, "\nConnectTimeout=3\n"));
    ck_assert_ptr_nonnull(strstr(got, "\nServerAliveInterval=15\n"));
    ck_assert_ptr_nonnull(strstr(got, "\nRequestTTY=no\n"));
    ck_assert_str_eq(got + strlen(got) - (sizeof end - 1), end);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("host");
    TCase *t = tcase_create("host");

    tcase_add_loop_test(t, a_host_is_parsed_or_refused, 0, ARRAY_LEN(hosts));
    tcase_add_test(t, a_name_that_is_too_long_is_refused);
    tcase_add_test(t, this_machine_is_known_by_its_names);
    tcase_add_test(t, a_quoted_word_is_one_word_to_a_shell);
    tcase_add_test(t, ssh_gets_its_options_the_host_and_one_command);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
