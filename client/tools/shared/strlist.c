#include "client/tools/shared/strlist.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *
strlist_need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "psrun: out of memory\n");
        exit(EXIT_FAILURE);
    }
    return memory;
}

void *
strlist_alloc(void *old, size_t n, size_t size)
{
    return strlist_need(reallocarray(old, n, size));
}

void
strlist_add(struct strlist *list, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    list->text = strlist_alloc(list->text, list->len + 2, sizeof *list->text);
    list->text[list->len++] = strlist_need(text);
    list->text[list->len] = NULL;
}

void
strlist_free(struct strlist *list)
{
    for (size_t i = 0; i < list->len; i++)
        free(list->text[i]);
    free(list->text);
    *list = (struct strlist){0};
}

/* ---- environments ---- */

void
strlist_unset_env(struct strlist *env, const char *key)
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
strlist_set_env(struct strlist *env, const char *key, const char *value)
{
    strlist_unset_env(env, key);
    strlist_add(env, "%s%s", key, value);
}

void
strlist_put_env(struct strlist *env, const char *setting)
{
    char *key = strlist_need(strndup(setting, strcspn(setting, "=") + 1));

    strlist_unset_env(env, key);
    strlist_add(env, "%s", setting);
    free(key);
}

bool
strlist_has_key(const struct strlist *env, const char *key)
{
    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->text[i], key, strlen(key)) == 0)
            return true;
    return false;
}
