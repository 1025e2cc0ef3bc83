/* Names on the wire: printable UTF-8 (utf8.h). */
#ifndef COMMON_CORE_WIRE_WIRE_TEXT_H
#define COMMON_CORE_WIRE_WIRE_TEXT_H

#include <stddef.h>

#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

/* A name that a caller gives: 1 to WIRE_NAME_MAX bytes of such text. what: "variable", for the sentence. NULL is none.
 * PS_ERR_INVALID. */
enum ps_err wire_name_check(const char *what, const char *name, struct ps_error *e) PS_MUST_USE;

/* Names of metrics, in their order: at most WIRE_METRICS_MAX, each 1 to WIRE_METRIC_NAME_MAX bytes of such text, no two
 * alike. names: [n]. PS_ERR_INVALID. */
enum ps_err wire_metric_names_check(size_t n, const char *const *names, struct ps_error *e) PS_MUST_USE;

/* The fields of a job's definition: at most WIRE_FIELDS_MAX, each with a name of 1 to WIRE_FIELD_NAME_MAX bytes and a
 * value of at most WIRE_FIELD_VALUE_MAX bytes of such text, no two of one name. fields: [n]. PS_ERR_INVALID. */
enum ps_err wire_fields_check(size_t n, Psd__DefinitionField *const *fields, struct ps_error *e) PS_MUST_USE;

#endif
