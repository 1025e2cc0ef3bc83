/* Reports of shards as JSON (report.c): the members are those of the messages in psd.proto. */
#ifndef CLIENT_API_REPORT_H
#define CLIENT_API_REPORT_H

#include <jansson.h>

#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

/* Several pages of one report. */
struct json_report;

/* Add a page, whose texts are cleaned. PS_ERR_NOMEM. */
enum ps_err report_add(struct json_report **r, Psd__Report *page) PS_MUST_USE;

/* All of it as text, heap; NULL: out of memory. */
char *report_text(const struct json_report *r);

void report_free(struct json_report *r); /* accepts NULL */

/* One message, the caller's; its texts are cleaned. */
json_t *report_message(const ProtobufCMessage *m);

#endif
