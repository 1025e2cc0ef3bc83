/* The name that was meant by one that is not known: "did you mean workers?" Pure. */
#ifndef COMMON_CORE_BASE_NEAREST_H
#define COMMON_CORE_BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_NAME_MAX 64 /* longer names are near to none */

/* Letters that are added, left out, replaced, or swapped with their neighbour: optimal string alignment (Damerau,
 * 1964); capital ones are as small ones. Neither is longer than NEAREST_NAME_MAX. */
size_t nearest_distance(const char *a, const char *b);

/* The search for the nearest of several names, one after the other. */
struct nearest {
    const char *word;
    const char *name; /* the nearest so far; NULL: none is near enough */
    size_t distance;
};

/* A name is also near that begins with the word, or of whose parts the word is the initials: "lr", learning_rate. */
struct nearest nearest_to(const char *word);
void nearest_offer(struct nearest *n, const char *name); /* borrowed */

/* "; did you mean --workers?" with this before the name, or "" when none is near. */
#define NEAREST_TEXT_MAX (NEAREST_NAME_MAX + 32)
const char *nearest_text(const struct nearest *n, const char *before, char out[NEAREST_TEXT_MAX]);

#endif
