/* A page in Prometheus' text format, read as a scraper reads it: whether it is well formed, and the value of a series.
 */
#ifndef TESTS_EXPOSITION_PAGE_H
#define TESTS_EXPOSITION_PAGE_H

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_LINES_MAX 65536

/* The value of a series, written as on the page: "psd_pulls_total" or "psd_waiting{reason=\"disk\"}"; NAN: there is
 * none. */
static inline double
page_value(const char *page, const char *series)
{
    size_t len = strlen(series);

    for (const char *line = page; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, series, len) == 0 && line[len] == ' ')
            return strtod(line + len, NULL);
    return NAN;
}

static inline int
page_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The end of a name; NULL: there is none. */
static inline const char *
page_name_end(const char *at)
{
    if (!isalpha((unsigned char)*at) && *at != '_')
        return NULL;
    while (isalnum((unsigned char)*at) || *at == '_' || *at == ':')
        at++;
    return at;
}

/* The end of {label="value",...}; NULL: they are not well formed. */
static inline const char *
page_labels_end(const char *at)
{
    do {
        if ((at = page_name_end(at + 1)) == NULL || at[0] != '=' || at[1] != '"')
            return NULL;
        for (at += 2; *at != '"'; at++)
            if (*at == '\0' || *at == '\n' || (*at == '\\' && strchr("\\\"n", *++at) == NULL))
                return NULL;
        at++;
    } while (*at == ',');
    return *at == '}' ? at + 1 : NULL;
}

/* A sample of this family and kind; cut off after its labels. */
static inline bool
page_sample_ok(char *line, const char *family, const char *kind)
{
    static const char *const parts[] = {"_bucket", "_sum", "_count"};
    const char *at = page_name_end(line);
    size_t len = strlen(family);
    char *end;

    if (at == NULL || strncmp(line, family, len) != 0)
        return false;
    if (strcmp(kind, "histogram") == 0) {
        bool part = false;

        for (size_t i = 0; i < 3; i++)
            part = part || ((size_t)(at - line) == len + strlen(parts[i]) &&
                            strncmp(line + len, parts[i], strlen(parts[i])) == 0);
        if (!part)
            return false;
    } else if ((size_t)(at - line) != len) {
        return false;
    }
    if (*at == '{' && (at = page_labels_end(at)) == NULL)
        return false;
    if (*at != ' ')
        return false;
    strtod(at + 1, &end);
    line[at - line] = '\0';
    return end > at + 1 && *end == '\0';
}

/* NULL: every family has HELP and TYPE once, before its samples; names are valid for Prometheus, those of counters end
 * in _total and no others do; no series comes twice; the last line is whole. Else a line that is wrong, valid until the
 * next call. */
static inline const char *
page_wrong(const char *page)
{
    static char wrong[1024], *families[PAGE_LINES_MAX], *series[PAGE_LINES_MAX];
    size_t families_len = 0, series_len = 0;
    char *copy = strdup(page), *save = NULL, family[256] = "", kind[32] = "";
    bool ok = copy != NULL && page[0] != '\0' && page[strlen(page) - 1] == '\n';

    snprintf(wrong, sizeof wrong, "(the end)");
    for (char *line = ok ? strtok_r(copy, "\n", &save) : NULL; line != NULL && ok; line = strtok_r(NULL, "\n", &save)) {
        char named[256];
        size_t len;

        snprintf(wrong, sizeof wrong, "%.1000s", line);
        if (sscanf(line, "# HELP %255s", family) == 1) {
            ok = strlen(line) > strlen("# HELP  ") + strlen(family) && families_len < PAGE_LINES_MAX;
            if (ok)
                families[families_len++] = strdup(family);
            kind[0] = '\0';
        } else if (sscanf(line, "# TYPE %255s %31s", named, kind) == 2) {
            len = strlen(named);
            ok = strcmp(named, family) == 0 && page_name_end(named) == named + len;
            ok = ok && (strcmp(kind, "counter") == 0) == (len > 6 && strcmp(named + len - 6, "_total") == 0);
        } else {
            ok = *kind != '\0' && page_sample_ok(line, family, kind) && series_len < PAGE_LINES_MAX;
            if (ok)
                series[series_len++] = line;
        }
    }
    qsort(families, families_len, sizeof *families, page_by_text);
    qsort(series, series_len, sizeof *series, page_by_text);
    for (size_t i = 1; i < families_len && ok; i++)
        if (!(ok = strcmp(families[i - 1], families[i]) != 0))
            snprintf(wrong, sizeof wrong, "twice: %.1000s", families[i]);
    for (size_t i = 1; i < series_len && ok; i++)
        if (!(ok = strcmp(series[i - 1], series[i]) != 0))
            snprintf(wrong, sizeof wrong, "twice: %.1000s", series[i]);
    for (size_t i = 0; i < families_len; i++)
        free(families[i]);
    free(copy);
    return ok ? NULL : wrong;
}

#endif
