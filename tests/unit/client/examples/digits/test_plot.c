/* Charts: round ticks, and SVG that an XML reader accepts, whatever the series hold. */
#include "client/examples/digits/plot.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

/* ---- A small XML reader: elements nest and close, attributes are quoted, & starts a known entity ---- */

struct xml {
    const char *at;
    char open[16][32];
    int depth;
    size_t elements, texts, paths;
};

static void
xml_fail(const struct xml *x, const char *what)
{
    ck_abort_msg("%s at: %.60s", what, x->at);
}

static void
xml_entity(const struct xml *x)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;"};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strncmp(x->at, known[i], strlen(known[i])) == 0)
            return;
    xml_fail(x, "bad entity");
}

static void
xml_attributes(struct xml *x)
{
    while (*x->at == ' ' || *x->at == '\n') {
        size_t name;

        x->at += strspn(x->at, " \n");
        name = strspn(x->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
        if (name == 0 || x->at[name] != '=' || x->at[name + 1] != '"')
            xml_fail(x, "bad attribute");
        for (x->at += name + 2; *x->at != '"'; x->at++) {
            if (*x->at == '\0' || *x->at == '<')
                xml_fail(x, "unclosed attribute");
            if (*x->at == '&')
                xml_entity(x);
        }
        x->at++;
    }
}

static void
xml_tag(struct xml *x)
{
    bool closing = x->at[1] == '/';
    char name[32];
    size_t len;

    x->at += 1 + closing;
    len = strspn(x->at, "abcdefghijklmnopqrstuvwxyz");
    ck_assert(len > 0 && len < sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)len, x->at);
    x->at += len;
    if (closing) {
        if (*x->at != '>' || x->depth == 0 || strcmp(x->open[x->depth - 1], name) != 0)
            xml_fail(x, "wrong closing tag");
        x->depth--;
        x->at++;
        return;
    }
    x->elements++;
    x->texts += strcmp(name, "text") == 0;
    x->paths += strcmp(name, "path") == 0;
    xml_attributes(x);
    if (strncmp(x->at, "/>", 2) == 0) {
        x->at += 2;
        return;
    }
    if (*x->at != '>')
        xml_fail(x, "tag does not end");
    x->at++;
    strcpy(x->open[x->depth++], name);
}

static struct xml
assert_well_formed(const char *text)
{
    struct xml x = {.at = text};

    while (*x.at != '\0') {
        if (*x.at == '<')
            xml_tag(&x);
        else if (x.depth == 0 && *x.at != '\n')
            xml_fail(&x, "text outside of the root");
        else if (*x.at == '&')
            xml_entity(&x), x.at++;
        else if ((unsigned char)*x.at < 0x20 && *x.at != '\n')
            xml_fail(&x, "control character");
        else
            x.at++;
    }
    ck_assert_int_eq(x.depth, 0);
    return x;
}

static char *
plot_draw(const struct plot_chart *charts, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    plot_write(file, charts, count);
    fclose(file);
    ck_assert_msg(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL, "a number that is none: %s", text);
    return text;
}

/* ---- Tests ---- */

START_TEST(a_chart_is_well_formed_svg)
{
    double x[500], y[500], smooth[500];
    struct plot_series series[] = {{"each \"step\"", PLOT_FAINT, 0, 500, x, y},
                                   {"a < b & c", PLOT_LINE, 1, 500, x, smooth}};
    struct plot_chart charts[] = {{"Loss <async> & \x01more \"é\"", "epoch", "cross-entropy", true, series, 2},
                                  {"Accuracy", "epoch", "percent", false, series, 1}};
    struct xml xml;
    char *text;

    for (size_t i = 0; i < 500; i++) {
        x[i] = (double)i / 50;
        smooth[i] = 2.3 * exp(-(double)i / 60);
        y[i] = smooth[i] * (1.2 + sin((double)i));
    }
    text = plot_draw(charts, 2);
    xml = assert_well_formed(text);
    ck_assert_int_eq(strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39), 0);
    ck_assert_uint_ge(xml.texts, 20);
    ck_assert_uint_ge(xml.paths, 2 + 1 + 4);
    ck_assert_ptr_nonnull(strstr(text, "Loss &lt;async&gt; &amp;  more &quot;é&quot;"));
    ck_assert_ptr_nonnull(strstr(text, "prefers-color-scheme: dark"));
    free(text);
}
END_TEST

START_TEST(odd_series_are_drawn_without_odd_numbers)
{
    double one[] = {3}, flat[] = {5, 5, 5}, x[] = {0, 1, 2}, holes[] = {1, NAN, 2}, wild[] = {INFINITY, 0, -1};
    struct plot_series empty = {"none", PLOT_LINE, 0, 0, NULL, NULL}, point = {"one", PLOT_LINE, 0, 1, one, one};
    struct plot_series level = {"flat", PLOT_LINE, 0, 3, x, flat}, gap = {NULL, PLOT_LINE, 0, 3, x, holes};
    struct plot_series mad = {"mad", PLOT_FAINT, 0, 3, x, wild};
    const struct plot_series *all[] = {&empty, &point, &level, &gap, &mad};

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (int log = 0; log < 2; log++) {
            struct plot_chart chart = {"odd", "x", "y", log == 1, all[i], 1};
            char *text = plot_draw(&chart, 1);

            assert_well_formed(text);
            free(text);
        }
}
END_TEST

START_TEST(long_series_make_short_files)
{
    enum { N = 200000 };
    double *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    struct plot_series series = {"long", PLOT_LINE, 0, N, x, y};
    struct plot_chart chart = {"long", "x", "y", false, &series, 1};
    char *text;

    for (size_t i = 0; i < N; i++)
        x[i] = y[i] = (double)i;
    text = plot_draw(&chart, 1);
    ck_assert_uint_lt(strlen(text), 40000);
    assert_well_formed(text);
    free(text);
    free(x);
    free(y);
}
END_TEST

static void
assert_ticks(double low, double high, bool log, size_t max, size_t want, ...)
{
    double ticks[16];
    size_t n = plot_ticks(low, high, log, max, ticks);
    va_list args;

    ck_assert_msg(n == want, "%g to %g: %zu ticks, first %g", low, high, n, n > 0 ? ticks[0] : NAN);
    va_start(args, want);
    for (size_t i = 0; i < n; i++) {
        double value = va_arg(args, double);
        ck_assert_msg(fabs(ticks[i] - value) < 1e-9 * (fabs(value) + 1e-12), "tick %zu is %g, not %g", i, ticks[i],
                      value);
    }
    va_end(args);
}

START_TEST(ticks_stand_at_round_distances)
{
    assert_ticks(0, 30, false, 10, 7, 0., 5., 10., 15., 20., 25., 30.);
    assert_ticks(0, 1, false, 6, 6, 0., .2, .4, .6, .8, 1.);
    assert_ticks(-0.3, 0.31, false, 6, 3, -.2, 0., .2);
    assert_ticks(90.2, 98.7, false, 6, 4, 92., 94., 96., 98.);
    assert_ticks(0.008, 2.4, true, 10, 8, .01, .02, .05, .1, .2, .5, 1., 2.);
    assert_ticks(1e-9, 1e9, true, 10, 10, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1, 1e1, 1e3, 1e5, 1e7, 1e9);
}
END_TEST

START_TEST(ticks_are_inside_rising_and_few_for_any_range)
{
    struct test_rng rng = {test_seed()};
    double ticks[16];

    for (int i = 0; i < 20000; i++) {
        double low = (double)test_float(&rng) * pow(10, (double)test_below(&rng, 12) - 6);
        double high = low + pow(10, (double)test_below(&rng, 12) - 6) * (0.01 + (double)test_below(&rng, 100));
        size_t max = 4 + test_below(&rng, 12), n;
        bool log = test_below(&rng, 2) == 1;

        if (log) {
            low = fabs(low) + 1e-9;
            high = low * (1.5 + (double)test_below(&rng, 100000));
        }
        n = plot_ticks(low, high, log, max, ticks);
        ck_assert_uint_le(n, max);
        ck_assert_msg(log || n > 0, "no tick from %.12g to %.12g, max %zu", low, high, max);
        for (size_t k = 0; k < n; k++) {
            double slack = 1e-6 * (high - low);
            ck_assert(ticks[k] >= low - slack && ticks[k] <= high + slack && (k == 0 || ticks[k] > ticks[k - 1]));
        }
    }
}
END_TEST

START_TEST(a_chart_is_saved_or_the_file_is_named)
{
    double x[] = {0, 1};
    struct plot_series series = {"s", PLOT_LINE, 0, 2, x, x};
    struct plot_chart chart = {"t", "x", "y", false, &series, 1};
    struct ps_error error;
    char path[] = "/tmp/psd-test-plot-XXXXXX";

    close(mkstemp(path));
    ck_assert_int_eq(plot_save(path, &chart, 1, &error), PS_OK);
    unlink(path);
    ck_assert_int_eq(plot_save("/nonexistent/a.svg", &chart, 1, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "/nonexistent/a.svg: No such file"));
    ck_assert_int_eq(plot_save("/dev/full", &chart, 1, &error), PS_ERR_IO);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("plot");
    TCase *tc = tcase_create("plot");

    tcase_add_test(tc, a_chart_is_well_formed_svg);
    tcase_add_test(tc, odd_series_are_drawn_without_odd_numbers);
    tcase_add_test(tc, long_series_make_short_files);
    tcase_add_test(tc, ticks_stand_at_round_distances);
    tcase_add_test(tc, ticks_are_inside_rising_and_few_for_any_range);
    tcase_add_test(tc, a_chart_is_saved_or_the_file_is_named);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
