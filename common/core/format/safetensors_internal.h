/* Shared by safetensors.c (types, lists, writing) and safetensors_parse.c (reading). */
#ifndef COMMON_CORE_FORMAT_SAFETENSORS_INTERNAL_H
#define COMMON_CORE_FORMAT_SAFETENSORS_INTERNAL_H

#include "common/core/format/safetensors.h"

#define PREFIX     8                   /* the length of the JSON */
#define VALUES_MAX ((uint64_t)1 << 62) /* bytes; a sum of two such numbers does not wrap */
#define NAME_SHOWN 64

enum ps_err safetensors_no_memory(struct ps_error *e);

/* Fills t->bytes from type and shape. False: more than can be counted. */
bool safetensors_measure(struct safetensors_tensor *t);

/* Copies t but for its name, which is copied, too, and so is t->other. False: no memory. */
bool safetensors_append(struct safetensors *s, const struct safetensors_tensor *t, const char *name) PS_MUST_USE;

/* Orders of safetensors_sort(). By place an empty tensor comes before the one that begins where it does. */
int safetensors_by_name(const void *a, const void *b);
int safetensors_by_place(const void *a, const void *b);
void safetensors_sort(struct safetensors *s, int (*order)(const void *, const void *));

#endif
