/* Reports as a client's caller gets them. */
#include <stdlib.h>

#include "client/api/report.h"
#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

/* The report of a shard whose save has failed with this text. */
static char *
text_of(const char *dir, const char *failure)
{
    Psd__Report m = PSD__REPORT__INIT;
    Psd__StatusReport status = PSD__STATUS_REPORT__INIT;
    Psd__SaveReport save = PSD__SAVE_REPORT__INIT;
    struct json_report *r = NULL;
    Psd__Report *page;
    char *text;

    save.durable_dir = (char *)dir;
    save.failure = (char *)failure;
    status.save = &save;
    m.status = &status;
    page = wire_copy(&m.base);
    ck_assert_ptr_nonnull(page);
    ck_assert_int_eq(report_add(&r, page), PS_OK);
    text = report_text(r);
    report_free(r);
    psd__report__free_unpacked(page, NULL);
    return text;
}

static void
report_json_expect(const char *dir, const char *failure, const char *shown_dir, const char *shown_failure)
{
    char *text = text_of(dir, failure);
    json_t *root = json_loads(text, 0, NULL);
    json_t *save = json_object_get(json_object_get(root, "status"), "save");

    ck_assert_str_eq(json_string_value(json_object_get(save, "durable_dir")), shown_dir);
    ck_assert_str_eq(json_string_value(json_object_get(save, "failure")), shown_failure);
    json_decref(root);
    free(text);
}

START_TEST(texts_are_as_they_were_said)
{
    report_json_expect("/var/psd/\xc3\xa4", "no room", "/var/psd/\xc3\xa4", "no room");
    report_json_expect("", "", "", "");
}
END_TEST

START_TEST(what_is_no_utf8_is_not_left_out)
{
    report_json_expect("/var/\xff", "cannot write /\xc3", "/var/?",
                       "cannot write /?");                          /* cut in the middle of a letter */
    report_json_expect("/var/\x1b[2J", "a\nb", "/var/?[2J", "a?b"); /* nor do terminals obey */
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("report_json");
    TCase *t = tcase_create("report_json");

    tcase_add_test(t, texts_are_as_they_were_said);
    tcase_add_test(t, what_is_no_utf8_is_not_left_out);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
