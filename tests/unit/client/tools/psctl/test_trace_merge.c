/* Merged traces: every process's time by one clock, however far the machines' clocks are apart. */
#include "client/tools/psctl/trace_merge.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

#define MS INT64_C(1000000)

static struct trace_merge *o;
static const char *unsure; /* processes that are aligned by their wall clocks alone */
static struct trace t;     /* all of them, once they are merged */

static void
trace_merge_setup(void)
{
    o = trace_merge_new();
    t = (struct trace){0};
}

static void
trace_merge_teardown(void)
{
    trace_finish(&t);
    trace_merge_free(o);
}

/* One slice of 2 ms at the origin. */
static void
trace_merge_add_event(const char *machine, uint64_t origin_ns, int64_t wall_ns, uint32_t pid)
{
    struct trace_origin origin = {.origin_ns = origin_ns, .wall_ns = wall_ns};
    struct timeline_span turn = {.start_ns = origin_ns, .end_ns = origin_ns + 2 * MS, .kind = TIMELINE_TURN};
    struct trace one;

    strcpy(origin.machine, machine);
    ck_assert_int_eq(trace_init(&one, &origin), PS_OK);
    trace_name_process(&one, pid, machine);
    trace_shard(&one, pid, &turn, 1);
    trace_merge_add(o, one.events, &origin, machine);
}

/* When the turn of the process with this name began, ms after the origin; -1: it is not there. */
static double
trace_merge_begins(const char *name)
{
    json_int_t pid = -1;
    const json_t *event;
    size_t i;

    json_array_foreach(t.events, i,
                       event) if (strcmp(json_string_value(json_object_get(event, "name")), "process_name") == 0 &&
                                  strcmp(json_string_value(json_object_get(json_object_get(event, "args"), "name")),
                                         name) == 0) pid = json_integer_value(json_object_get(event, "pid"));
    json_array_foreach(t.events, i, event) if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0 &&
                                               json_integer_value(json_object_get(event, "pid")) ==
                                                   pid) return json_number_value(json_object_get(event, "ts")) /
        1e3;
    return -1;
}

static void
trace_merge_expect(const char *name, double ms)
{
    ck_assert_double_eq_tol(trace_merge_begins(name), ms, 1e-3);
}

START_TEST(processes_of_one_machine_have_one_clock)
{
    trace_merge_add_event("a", 100 * MS, 0, 1);
    trace_merge_add_event("a", 70 * MS, 9 * MS, 2); /* whatever their wall clocks show */
    t = trace_merge_finish(o, 0, &unsure);
    ck_assert_ptr_null(unsure);
    ck_assert_uint_eq(t.origin.origin_ns, 70 * MS);
    ck_assert_uint_eq(json_array_size(t.events), 6);
}
END_TEST

/* b is 1000 ms ahead of a, c 50 ms behind b: a and c were not compared. */
START_TEST(clocks_that_were_compared_are_made_one_through_others)
{
    trace_merge_add_event("a", 100 * MS, 0, 1);
    trace_merge_add_event("c", 955 * MS + 100 * MS, 0, 2);
    trace_merge_add_event("b", 1000 * MS + 130 * MS, 0, 3);
    trace_merge_knows(o, "b", "c", -50 * MS);
    trace_merge_knows(o, "a", "b", 1000 * MS);
    t = trace_merge_finish(o, 0, &unsure);
    ck_assert_ptr_null(unsure);
    trace_merge_expect("a", 0);
    trace_merge_expect("c", 5);
    trace_merge_expect("b", 30);
}
END_TEST

START_TEST(where_nobody_compared_them_the_wall_clocks_do)
{
    trace_merge_add_event("a", 100 * MS, 5000 * MS, 1);
    trace_merge_add_event("z", 7 * MS, 5012 * MS, 2);
    t = trace_merge_finish(o, 0, &unsure);
    ck_assert_str_eq(unsure, "z");
    trace_merge_expect("a", 0);
    trace_merge_expect("z", 12);
}
END_TEST

START_TEST(two_with_one_process_id_stay_two)
{
    trace_merge_add_event("a", 100 * MS, 0, 1001);
    trace_merge_add_event("b", 103 * MS, 0, 1001);
    trace_merge_add_event("c", 104 * MS, 0, 1001);
    trace_merge_knows(o, "a", "b", 0);
    trace_merge_knows(o, "a", "c", 0);
    t = trace_merge_finish(o, 0, &unsure);
    trace_merge_expect("a", 0);
    trace_merge_expect("b", 3);
    trace_merge_expect("c", 4);
}
END_TEST

/* The same file twice is two processes; and numbers that no process has end the command, not the arithmetic. */
START_TEST(what_is_no_trace_is_refused)
{
    static const struct {
        const char *event;
        bool good;
    } files[] = {{"\"ph\": \"M\", \"pid\": 4294967295, \"name\": \"process_name\"", true},
                 {"\"ph\": \"M\", \"pid\": 4294967295, \"name\": \"process_name\"", true},
                 {"\"ph\": \"M\", \"pid\": 9223372036854775807, \"name\": \"process_name\"", false},
                 {"\"ph\": \"M\", \"pid\": -1, \"name\": \"process_name\"", false},
                 {"\"ph\": \"M\", \"pid\": 1.5, \"name\": \"process_name\"", false},
                 {"\"ph\": \"X\", \"pid\": 1, \"name\": \"turn\"", false},
                 {"\"pid\": 1, \"name\": \"turn\", \"ts\": 1", false}};
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char text[512];
        json_t *trace;

        snprintf(text, sizeof text, "{\"otherData\": {\"psd\": \"1\", \"machine\": \"m\"}, \"traceEvents\": [{%s}]}",
                 files[i].event);
        ck_assert_ptr_nonnull(trace = json_loads(text, 0, NULL));
        ck_assert_int_eq(trace_merge_add_file(o, trace, "file", &e), files[i].good ? PS_OK : PS_ERR_DATA);
        json_decref(trace);
    }
}
END_TEST

START_TEST(what_ended_long_ago_is_left_out)
{
    trace_merge_add_event("a", 100 * MS, 0, 1);
    trace_merge_add_event("a", 500 * MS, 0, 2);
    t = trace_merge_finish(o, 100 * MS, &unsure);
    ck_assert_uint_eq(json_array_size(t.events), 5); /* names stay */
}
END_TEST

START_TEST(nothing_laid_over_nothing_is_nothing)
{
    t = trace_merge_finish(o, 0, &unsure);
    ck_assert_uint_eq(json_array_size(t.events), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("overlay");
    TCase *tc = tcase_create("overlay");

    tcase_add_checked_fixture(tc, trace_merge_setup, trace_merge_teardown);
    tcase_add_test(tc, processes_of_one_machine_have_one_clock);
    tcase_add_test(tc, clocks_that_were_compared_are_made_one_through_others);
    tcase_add_test(tc, where_nobody_compared_them_the_wall_clocks_do);
    tcase_add_test(tc, two_with_one_process_id_stay_two);
    tcase_add_test(tc, what_is_no_trace_is_refused);
    tcase_add_test(tc, what_ended_long_ago_is_left_out);
    tcase_add_test(tc, nothing_laid_over_nothing_is_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
