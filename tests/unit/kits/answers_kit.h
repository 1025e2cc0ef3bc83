/* Answers of shards, as a test writes them, and a search in the text that shows them. */
#ifndef TESTS_UNIT_KITS_ANSWERS_KIT_H
#define TESTS_UNIT_KITS_ANSWERS_KIT_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/query_all.h"

static inline json_t *
answers_kit_report(const char *text)
{
    json_error_t where;
    json_t *value = json_loads(text, 0, &where);

    ck_assert_msg(value != NULL, "%s at %d", where.text, where.position);
    return value;
}

/* The report's list of variables, as rows; in the report there is none then. */
static inline struct variable_list *
answers_kit_variables(json_t *report)
{
    struct variable_list *list = calloc(1, sizeof *list);

    list->keeps_json = true;
    ck_assert(variable_list_add(list, json_object_get(report, "variable")));
    json_array_clear(json_object_get(report, "variable"));
    return list;
}

static inline struct shard_answer
answer_of(uint32_t shard, const char *text)
{
    json_t *report = answers_kit_report(text);

    return (struct shard_answer){.shard = shard,
                                 .address = shard == 0 ? "a:1" : "b:2",
                                 .reached = true,
                                 .report = report,
                                 .variables = answers_kit_variables(report)};
}

static inline void
answer_finish(struct shard_answer *a)
{
    json_decref(a->report);
    variable_list_free(a->variables);
}

static inline struct shard_answer
answer_lost(uint32_t shard)
{
    struct shard_answer a = {.shard = shard, .address = "c:3"};

    (void)ps_fail(&a.error, PS_ERR_UNREACHABLE, "connection refused");
    return a;
}

/* A line of the text that holds all the words, in this order, blanks apart. */
static inline bool
has_line(const char *text, const char *words)
{
    char *copy = strdup(text), *rest = copy, *line;
    bool found = false;

    while (!found && (line = strsep(&rest, "\n")) != NULL) {
        char squeezed[1024] = "";

        for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " "))
            strcat(strcat(squeezed, squeezed[0] != '\0' ? " " : ""), word);
        found = strcmp(squeezed, words) == 0;
    }
    free(copy);
    return found;
}

#define ck_assert_line(text, words) ck_assert_msg(has_line(text, words), "no line '%s' in:\n%s", words, text)

#endif
