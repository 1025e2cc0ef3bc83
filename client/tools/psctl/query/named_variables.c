#include "client/tools/psctl/query/named_variables.h"

#include <stdlib.h>

#include "client/tools/psctl/query/variable_list.h"
#include "common/core/base/nearest.h"
#include "common/core/base/pattern.h"

/* "no variable of job "digits" has a name that fits "dense0/bais"; psctl variables lists them; did you mean
 * dense0/bias?"
 */
static enum ps_err
named_variables_none(const char *job, const char *pattern, const struct nearest *nearest, struct ps_error *e)
{
    char meant[NEAREST_TEXT_MAX];

    if (pattern == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "%s%.128s%s has no variable", job != NULL ? "job \"" : "",
                       job != NULL ? job : "the cluster", job != NULL ? "\"" : "");
    return ps_fail(
        e, PS_ERR_NOT_FOUND,
        "no variable%s%.128s%s has a name that fits \"%.128s\"; psctl variables lists those that there are%s",
        job != NULL ? " of job \"" : "", job != NULL ? job : "", job != NULL ? "\"" : "", pattern,
        nearest_text(nearest, "", meant));
}

enum ps_err
named_variables(const struct shard_answer *answers, uint32_t n, const char *job, const char *pattern,
                void (*take)(void *arg, const char *name), void *arg, struct ps_error *e)
{
    struct nearest nearest = nearest_to(pattern != NULL ? pattern : "");
    size_t len, named = 0;
    struct variable_entry *places = variable_entries(answers, n, &len);
    enum ps_err err;

    if (places == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < len; i++) {
        const char *name = places[i].v->name;

        if (i > 0 && variable_entry_same(&places[i - 1], &places[i]))
            continue;
        nearest_offer(&nearest, name);
        if (pattern != NULL && !pattern_matches(pattern, name))
            continue;
        named++;
        if (take != NULL)
            take(arg, name);
    }
    err = named > 0 ? PS_OK : named_variables_none(job, pattern, &nearest, e);
    free(places);
    return err;
}
