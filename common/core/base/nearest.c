#include "common/core/base/nearest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"

static bool
nearest_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

size_t
nearest_distance(const char *a, const char *b)
{
    size_t rows[3][NEAREST_NAME_MAX + 1], n = strlen(a), m = strlen(b);

    ps_assert(n <= NEAREST_NAME_MAX && m <= NEAREST_NAME_MAX);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = MIN(MIN(above[j], row[j - 1]) + 1, above[j - 1] + !nearest_same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && nearest_same(a[i - 1], b[j - 2]) && nearest_same(a[i - 2], b[j - 1]))
                row[j] = MIN(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

/* "lr" for learning_rate. */
static bool
nearest_is_initials(const char *word, const char *name)
{
    for (; *word != '\0' && *name != '\0' && nearest_same(*word, *name); word++) {
        name += strcspn(name, "_-");
        name += strspn(name, "_-");
    }
    return *word == '\0' && *name == '\0';
}

/* One mistake in a short word, more in a longer one, or the beginning of the name alone. */
struct nearest
nearest_to(const char *word)
{
    size_t n = strlen(word);

    return (struct nearest){.word = word, .distance = n > NEAREST_NAME_MAX || n < 2 ? 0 : (n + 1) / 3 + 1};
}

void
nearest_offer(struct nearest *n, const char *name)
{
    size_t len = strlen(n->word), distance;

    if (n->distance == 0 || strlen(name) > NEAREST_NAME_MAX)
        return;
    distance = nearest_distance(n->word, name);
    if (len >= 3 && strncmp(n->word, name, len) == 0)
        distance = 1;
    if (nearest_is_initials(n->word, name))
        distance = 0;
    if (distance >= n->distance)
        return;
    n->distance = distance;
    n->name = name;
}

const char *
nearest_text(const struct nearest *n, const char *before, char out[NEAREST_TEXT_MAX])
{
    out[0] = '\0';
    if (n->name != NULL)
        snprintf(out, NEAREST_TEXT_MAX, "; did you mean %s%s?", before, n->name);
    return out;
}
