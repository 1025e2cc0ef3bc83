#include "client/tools/shared/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *
words_need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "psrun: out of memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

void *
words_alloc(void *old, size_t n, size_t size)
{
    return words_need(reallocarray(old, n, size));
}

void
words_add(struct words *list, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    list->text = words_alloc(list->text, list->len + 2, sizeof *list->text);
    list->text[list->len++] = words_need(text);
    list->text[list->len] = NULL;
}

void
words_free(struct words *list)
{
    for (size_t i = 0; i < list->len; i++)
        free(list->text[i]);
    free(list->text);
    *list = (struct words){0};
}

/* ---- environments ---- */

void
words_unset(struct words *env, const char *key)
{
    size_t kept = 0, len = strlen(key);

    for (size_t i = 0; i < env->len; i++) {
        if (strncmp(env->text[i], key, len) == 0)
            free(env->text[i]);
        else
            env->text[kept++] = env->text[i];
    }
    env->len = kept;
    if (env->text != NULL)
        env->text[kept] = NULL;
}

void
words_set(struct words *env, const char *key, const char *value)
{
    words_unset(env, key);
    words_add(env, "%s%s", key, value);
}

void
words_put(struct words *env, const char *setting)
{
    char *key = words_need(strndup(setting, strcspn(setting, "=") + 1));

    words_unset(env, key);
    words_add(env, "%s", setting);
    free(key);
}

bool
words_has(const struct words *env, const char *key)
{
    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->text[i], key, strlen(key)) == 0)
            return true;
    return false;
}
