#include "common/core/format/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

static void
checkpoint_job(struct checkpoint *c)
{
    Psd__Job declared = PSD__JOB__INIT, now = PSD__JOB__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    struct ps_error e;

    declared.name = now.name = (char *)"train";
    declared.mode = now.mode = PSD__MODE__SSP;
    declared.workers = now.workers = 3;
    declared.bound = 4;
    now.bound = 9;
    age.kind = PSD__AGE_KIND__AGE_CUTOFF;
    age.parameter = 7;
    now.age = &age;
    ck_assert_int_eq(checkpoint_set_job(c, &declared, &now, &e), PS_OK);
}

static enum ps_err
checkpoint_variable(struct checkpoint *c, const char *name, uint64_t rows, const char *optimizer,
                    const char *now_optimizer, struct ps_error *e)
{
    Psd__Declare declared = PSD__DECLARE__INIT, now;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct wire_optimizer room, now_room;
    struct ps_optimizer o, now_o;
    uint64_t dims[2] = {rows, 10};

    ck_assert_int_eq(ps_optimizer_parse(optimizer, &o, e), PS_OK);
    ck_assert_int_eq(ps_optimizer_parse(now_optimizer, &now_o, e), PS_OK);
    init.kind = PSD__INIT_KIND__NORMAL;
    init.b = 0.1;
    init.seed = UINT64_MAX;
    declared.name = (char *)name;
    declared.n_dims = 2;
    declared.dims = dims;
    declared.init = &init;
    now = declared;
    declared.optimizer = wire_optimizer_message(&o, &room);
    now.optimizer = wire_optimizer_message(&now_o, &now_room);
    return checkpoint_add(c, &declared, &now, e);
}

/* A job of two variables on two shards. */
static void
checkpoint_fill(struct checkpoint *c)
{
    struct ps_error e;

    *c = (struct checkpoint){.version = strdup("1.2"), .unix_ms = 1700000000123, .at_clock = true, .clock = 12};
    checkpoint_job(c);
    ck_assert_int_eq(checkpoint_variable(c, "z", 5, "sgd", "sgd:learning_rate=0.1", &e), PS_OK);
    ck_assert_int_eq(checkpoint_variable(c, "dense/w", 70000, "adam:learning_rate=0.3", "adam:learning_rate=0.1", &e),
                     PS_OK);
    c->shares_len = 2;
    c->shares = calloc(2, sizeof *c->shares);
    c->shares[1] = (struct checkpoint_share){.clock = 12, .blocks = 3, .bytes = 99};
    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        c->files[f].bytes = 100 + (uint64_t)f;
        memset(c->files[f].sha256, '0' + f, CHECKPOINT_DIGEST - 1);
    }
}

START_TEST(a_manifest_is_read_as_it_was_written)
{
    struct checkpoint made, read;
    struct ps_error e = {0};
    char *text, *again;

    checkpoint_fill(&made);
    ck_assert_ptr_nonnull(text = checkpoint_text(&made));
    ck_assert_msg(checkpoint_parse((struct span){text, strlen(text)}, &read, &e) == PS_OK, "%s", e.text);
    ck_assert_ptr_nonnull(again = checkpoint_text(&read));
    ck_assert_str_eq(text, again);
    ck_assert_uint_eq(read.now->bound, 9);
    ck_assert_uint_eq(read.declared->bound, 4);
    ck_assert_uint_eq(read.variables_len, 2);
    ck_assert_str_eq(read.variables[0].declared->name, "dense/w");
    ck_assert_double_eq(read.variables[0].declared->optimizer->learning_rate, 0.3);
    ck_assert_double_eq(read.variables[0].now->optimizer->learning_rate, 0.1);
    ck_assert_uint_eq(checkpoint_find(&read, "z")->declared->init->seed, UINT64_MAX);
    ck_assert_uint_eq(read.variables[0].layout.slots, 2);
    ck_assert_uint_eq(checkpoint_blocks(&read), checkpoint_blocks(&made));
    ck_assert_ptr_null(checkpoint_find(&read, "y"));
    free(text);
    free(again);
    checkpoint_finish(&made);
    checkpoint_finish(&read);
}
END_TEST

START_TEST(people_find_in_it_what_they_look_for)
{
    static const char *const words[] = {"\"name\": \"dense/w\"",
                                        "\"clock\": 12",
                                        "\"one_clock\": true",
                                        "ssp(bound 9), 3 workers",
                                        "adam:learning_rate=0.1",
                                        "\"psd\": \"1.2\"",
                                        "\"weights.safetensors\"",
                                        "\"unix_ms\": 1700000000123",
                                        "normal"};
    struct checkpoint made;
    char *text;

    checkpoint_fill(&made);
    text = checkpoint_text(&made);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        ck_assert_msg(strstr(text, words[i]) != NULL, "no %s in %s", words[i], text);
    free(text);
    checkpoint_finish(&made);
}
END_TEST

START_TEST(a_variable_of_two_shards_is_one_unless_they_differ)
{
    struct checkpoint c = {0};
    struct ps_error e;

    ck_assert_int_eq(checkpoint_variable(&c, "w", 5, "sgd", "sgd", &e), PS_OK);
    ck_assert_int_eq(checkpoint_variable(&c, "w", 5, "sgd", "sgd", &e), PS_OK);
    ck_assert_uint_eq(c.variables_len, 1);
    ck_assert_int_eq(checkpoint_variable(&c, "w", 6, "sgd", "sgd", &e), PS_ERR_MISMATCH);
    ck_assert_int_eq(checkpoint_variable(&c, "v", 6, "sgd", "adam", &e), PS_ERR_INVALID);
    ck_assert_int_eq(checkpoint_variable(&c, "v", 0, "sgd", "sgd", &e), PS_ERR_INVALID);
    ck_assert_uint_eq(c.variables_len, 1);
    checkpoint_finish(&c);
}
END_TEST

/* A piece of the manifest, its replacement, and text of the sentence. */
static const char *const damage[][3] = {
    {"{", "", "manifest.json:2:9: not valid JSON"},
    {"\"format\": 2", "\"format\": \"1\"", "manifest.json: format: expected a whole number"},
    {"\"psd\"", "\"pds\"", "manifest.json: psd: expected a text"},
    {"\"one_clock\": true", "\"one_clock\": 1", "manifest.json: one_clock: expected true or false"},
    {"\"unix_ms\": ", "\"unix_ms\": -", "manifest.json: unix_ms: expected a whole number from 0"},
    {"\"job\"", "\"bob\"", "manifest.json: job: expected an object"},
    {"\"name\": \"train\"", "\"name\": \"brain\"", "job.name: 'brain', and the definition says 'train'"},
    {"\"declared\": \"", "\"declared\": \"7", "job.declared: expected pairs of hexadecimal digits"},
    {"\"declared\": \"", "\"declared\": \"zz", "job.declared: expected pairs of hexadecimal digits"},
    {"\"declared\": \"", "\"declared\": \"ff", "job.declared: "},
    {"\"clock\": 12,\n   \"bl", "\"clock\": 1e3,\n   \"bl", "shards[1].clock: expected a whole number"},
    {"\"shards\": [", "\"shards\": 7, \"x\": [", "manifest.json: shards: expected a list of 1 to"},
    {"\"shards\": [", "\"shards\": [], \"x\": [", "manifest.json: shards: expected a list of 1 to"},
    {"\"files\": [", "\"files\": [{}, {}, {}], \"x\": [", "manifest.json: files: expected a list of 2"},
    {"weights.safetensors", "../../etc/passwd", "files[0].name: '../../etc/passwd', expected"},
    {"0000\"", "000\"", "files[0].sha256: expected 64 hexadecimal digits"},
    {"\"variables\": [", "\"variables\": {}, \"x\": [", "manifest.json: variables: expected a list"},
    {"\"name\": \"dense/w\"", "\"name\": \"z\"", "manifest.json: variables[0].name: 'z', and the definition"},
    {"\"name\": \"z\"", "\"name\": \"dense/w\"", "variables[1].name: 'dense/w' is there twice"},
    {"70000,", "70001,", "variables[0].shape: it is not that of the definition"},
    {"\"slots\": 0", "\"slots\": 1", "variables[1].blocks: 1 with 1 slots; the definition makes 1 with 0"},
    {"\"slots\": 0", "\"slots\": 4", "variables[1].slots: 4; the limit is 3"},
};

START_TEST(what_is_wrong_is_told_with_its_place)
{
    struct checkpoint c;
    struct ps_error e;
    char *text, *at, *damaged, *sealed;

    checkpoint_fill(&c);
    text = checkpoint_text(&c);
    checkpoint_finish(&c);
    at = strstr(text, damage[_i][0]);
    ck_assert_msg(at != NULL, "no %s in %s", damage[_i][0], text);
    ck_assert_int_ge(asprintf(&damaged, "%.*s%s%s", (int)(at - text), text, damage[_i][1], at + strlen(damage[_i][0])),
                     0);
    sealed = checkpoint_seal((struct span){damaged, (size_t)(strstr(damaged, ",\n \"check\"") - damaged)});
    ck_assert_msg(checkpoint_parse((struct span){sealed, strlen(sealed)}, &c, &e) == PS_ERR_DATA, "%s: taken",
                  damage[_i][1]);
    free(sealed);
    ck_assert_msg(strstr(e.text, damage[_i][2]) != NULL, "%s: \"%s\"", damage[_i][1], e.text);
    checkpoint_finish(&c);
    free(text);
    free(damaged);
}
END_TEST

/* Members of an object have no order: another program may write the variables first. */
START_TEST(a_manifest_is_read_in_any_order)
{
    struct checkpoint made, read;
    struct ps_error e;
    char *text, *again, *list, *end, *turned, *sealed;

    checkpoint_fill(&made);
    text = checkpoint_text(&made);
    checkpoint_finish(&made);
    list = strstr(text, "\"variables\": [");
    end = strstr(text, ",\n \"check\"");
    ck_assert_int_ge(asprintf(&turned, "{%.*s,\n%.*s", (int)(end - list), list, (int)(list - text) - 4, text + 1), 0);
    sealed = checkpoint_seal((struct span){turned, strlen(turned)});
    ck_assert_msg(checkpoint_parse((struct span){sealed, strlen(sealed)}, &read, &e) == PS_OK, "%s", e.text);
    ck_assert_ptr_nonnull(again = checkpoint_text(&read));
    ck_assert_str_eq(text, again);
    checkpoint_finish(&read);
    free(sealed);
    ck_assert_int_ge(asprintf(&sealed, "{%.*s,\n%.*s", (int)(end - list), list, (int)(end - text) - 1, text + 1), 0);
    free(turned);
    turned = checkpoint_seal((struct span){sealed, strlen(sealed)});
    ck_assert_int_eq(checkpoint_parse((struct span){turned, strlen(turned)}, &read, &e), PS_ERR_DATA);
    ck_assert_msg(strstr(e.text, "'variables' is there twice") != NULL, "%s", e.text);
    checkpoint_finish(&read);
    free(text);
    free(again);
    free(turned);
    free(sealed);
}
END_TEST

static void
checkpoint_gather_one(struct checkpoint_gather *g, const char *name, uint64_t rows)
{
    struct checkpoint one = {0};
    struct ps_error e;

    ck_assert_int_eq(checkpoint_variable(&one, name, rows, "sgd", "sgd", &e), PS_OK);
    ck_assert_int_eq(checkpoint_gather_take(g, one.variables[0].declared, one.variables[0].now, &e), PS_OK);
    checkpoint_finish(&one);
}

START_TEST(what_shards_answer_in_any_order_is_added_by_name)
{
    static const char *const names[] = {"d", "b", "a", "c", "b"};
    struct checkpoint_gather g = {0};
    struct checkpoint c = {0};
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        checkpoint_gather_one(&g, names[i], 5);
    ck_assert_int_eq(checkpoint_gather_add(&g, &c, &e), PS_OK);
    checkpoint_gather_finish(&g);
    ck_assert_uint_eq(c.variables_len, 4);
    for (size_t i = 0; i < c.variables_len; i++)
        ck_assert_str_eq(c.variables[i].declared->name, ((const char *[]){"a", "b", "c", "d"})[i]);
    checkpoint_gather_one(&g, "x", 5);
    checkpoint_gather_one(&g, "x", 6);
    ck_assert_int_eq(checkpoint_gather_add(&g, &c, &e), PS_ERR_MISMATCH);
    checkpoint_gather_finish(&g);
    checkpoint_gather_finish(&g);
    checkpoint_finish(&c);
}
END_TEST

/* Headers of 32 MiB and manifests of 64 MiB ended checkpoints at a tenth of the variables that they may have. */
START_TEST(many_variables_are_written_and_read_up_to_their_limit)
{
    enum { MANY = 2000, NAME = 40 };
    struct checkpoint made = {0}, read;
    struct safetensors files[CHECKPOINT_FILES] = {0}, back[CHECKPOINT_FILES];
    struct checkpoint_places places;
    char name[NAME + 1], *heads[CHECKPOINT_FILES], *text;
    struct ps_error e;

    checkpoint_job(&made);
    made.version = strdup("1");
    made.shares_len = 1;
    made.shares = calloc(1, sizeof *made.shares);
    memset(name, 'n', NAME);
    for (int i = 0; i < MANY; i++) {
        snprintf(name + NAME - 6, 7, "%06d", i);
        if (checkpoint_variable(&made, name, 1, "adam", "adam", &e) != PS_OK)
            ck_abort_msg("%s", e.text);
    }
    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        memset(made.files[f].sha256, '0', CHECKPOINT_DIGEST - 1);
        ck_assert_int_eq(checkpoint_tensors(&made, (enum checkpoint_file)f, &files[f], &e), PS_OK);
        ck_assert_msg(safetensors_head(&files[f], "psd", &heads[f], &e) == PS_OK, "%s", e.text);
        ck_assert_msg(safetensors_parse("f", (struct span){heads[f], files[f].data}, files[f].bytes, &back[f], &e) ==
                          PS_OK,
                      "%s", e.text);
        free(heads[f]);
        safetensors_finish(&files[f]);
    }
    ck_assert_ptr_nonnull(text = checkpoint_text(&made));
    ck_assert_uint_lt(back[CHECKPOINT_SLOTS].data / MANY * CHECKPOINT_VARIABLES_MAX, SAFETENSORS_HEAD_OWN_MAX);
    ck_assert_uint_lt(strlen(text) / MANY * CHECKPOINT_VARIABLES_MAX, CHECKPOINT_MANIFEST_MAX);
    ck_assert_msg(checkpoint_parse((struct span){text, strlen(text)}, &read, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(checkpoint_check_tensors(&read, back, &e) == PS_OK, "%s", e.text);
    ck_assert(checkpoint_places(back, name, &checkpoint_find(&read, name)->layout, &places));
    free(text);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        safetensors_finish(&back[f]);
    checkpoint_finish(&made);
    checkpoint_finish(&read);
}
END_TEST

START_TEST(a_newer_format_is_refused_with_a_sentence)
{
    static const char begin[] = "{\"format\": 3";
    char *text = checkpoint_seal((struct span){begin, strlen(begin)});
    struct checkpoint c;
    struct ps_error e;

    ck_assert_int_eq(checkpoint_parse((struct span){text, strlen(text)}, &c, &e), PS_ERR_VERSION);
    ck_assert_str_eq(e.text, "manifest.json: the checkpoint has format 3, this psd knows format 2");
    checkpoint_finish(&c);
    free(text);
}
END_TEST

START_TEST(any_cut_of_a_manifest_is_refused)
{
    struct checkpoint c;
    struct ps_error e;
    char *text;
    size_t len;

    checkpoint_fill(&c);
    text = checkpoint_text(&c);
    checkpoint_finish(&c);
    len = strlen(text);
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(checkpoint_parse((struct span){text, n}, &c, &e), PS_ERR_DATA);
        checkpoint_finish(&c);
    }
    free(text);
}
END_TEST

START_TEST(any_flipped_bit_of_a_manifest_is_found)
{
    struct checkpoint c;
    struct ps_error e;
    char *text;
    size_t len;

    checkpoint_fill(&c);
    text = checkpoint_text(&c);
    checkpoint_finish(&c);
    len = strlen(text);
    for (size_t n = 0; n < len; n++) {
        text[n] ^= (char)(1 << n % 7);
        ck_assert_msg(checkpoint_parse((struct span){text, len}, &c, &e) == PS_ERR_DATA, "byte %zu", n);
        checkpoint_finish(&c);
        text[n] ^= (char)(1 << n % 7);
    }
    ck_assert_int_eq(checkpoint_parse((struct span){text, len}, &c, &e), PS_OK);
    checkpoint_finish(&c);
    free(text);
}
END_TEST

START_TEST(names_of_variables_cannot_make_two_tensors_of_one_name)
{
    static const char *const names[] = {"w", "w#0", "w#1", "w#version", "w#clock", "w#0#0", "#", "w#"};
    struct checkpoint c = {0};
    struct safetensors s[CHECKPOINT_FILES] = {0};
    struct ps_error e = {0};
    char *head;

    checkpoint_job(&c);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ck_assert_int_eq(checkpoint_variable(&c, names[i], 1, "adam", "adam", &e), PS_OK);
    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        ck_assert_int_eq(checkpoint_tensors(&c, (enum checkpoint_file)f, &s[f], &e), PS_OK);
        ck_assert_msg(safetensors_head(&s[f], "test", &head, &e) == PS_OK, "%s", e.text);
        free(head);
    }
    ck_assert_int_eq(checkpoint_check_tensors(&c, s, &e), PS_OK);
    ck_assert_int_eq(checkpoint_variable(&c, "__metadata__", 1, "sgd", "sgd", &e), PS_ERR_INVALID);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        safetensors_finish(&s[f]);
    checkpoint_finish(&c);
}
END_TEST

START_TEST(its_files_hold_what_it_says_and_nothing_else)
{
    struct safetensors files[CHECKPOINT_FILES] = {{0}};
    struct checkpoint_places places;
    struct checkpoint c;
    struct ps_error e;
    char *head;

    checkpoint_fill(&c);
    for (int f = 0; f < CHECKPOINT_FILES; f++) {
        ck_assert_int_eq(checkpoint_tensors(&c, (enum checkpoint_file)f, &files[f], &e), PS_OK);
        ck_assert_int_eq(safetensors_head(&files[f], "psd 1", &head, &e), PS_OK);
        free(head);
    }
    ck_assert_uint_eq(files[CHECKPOINT_WEIGHTS].len, 2);
    ck_assert_uint_eq(files[CHECKPOINT_SLOTS].len, 2 * 2 + 2);
    ck_assert_int_eq(checkpoint_check_tensors(&c, files, &e), PS_OK);
    ck_assert(checkpoint_places(files, "dense/w", &c.variables[0].layout, &places));
    ck_assert_uint_eq(places.weights % SAFETENSORS_ALIGN, 0);
    ck_assert_uint_eq(places.version % 8, 0);
    ck_assert_uint_eq(places.slot[1], places.slot[0] + 700000 * 4);
    ck_assert(!checkpoint_places(files, "dense/w", &c.variables[1].layout, &places));
    ck_assert(!checkpoint_places(files, "dense", &c.variables[0].layout, &places));
    ck_assert_int_eq(checkpoint_variable(&c, "more", 5, "sgd", "sgd", &e), PS_OK);
    ck_assert_int_eq(checkpoint_check_tensors(&c, files, &e), PS_ERR_DATA);
    ck_assert_str_eq(e.text, "weights.safetensors: tensor 'more' is missing");
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        safetensors_finish(&files[f]);
    checkpoint_finish(&c);
}
END_TEST

static Suite *
checkpoint_make(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *all = tcase_create("checkpoint");

    tcase_add_test(all, a_manifest_is_read_as_it_was_written);
    tcase_add_test(all, people_find_in_it_what_they_look_for);
    tcase_add_test(all, a_variable_of_two_shards_is_one_unless_they_differ);
    tcase_add_loop_test(all, what_is_wrong_is_told_with_its_place, 0, (int)ARRAY_LEN(damage));
    tcase_add_test(all, a_manifest_is_read_in_any_order);
    tcase_add_test(all, what_shards_answer_in_any_order_is_added_by_name);
    tcase_add_test(all, many_variables_are_written_and_read_up_to_their_limit);
    tcase_add_test(all, a_newer_format_is_refused_with_a_sentence);
    tcase_add_test(all, any_cut_of_a_manifest_is_refused);
    tcase_add_test(all, any_flipped_bit_of_a_manifest_is_found);
    tcase_add_test(all, its_files_hold_what_it_says_and_nothing_else);
    tcase_add_test(all, names_of_variables_cannot_make_two_tensors_of_one_name);
    suite_add_tcase(suite, all);
    return suite;
}

CHECK_MAIN(checkpoint_make)
