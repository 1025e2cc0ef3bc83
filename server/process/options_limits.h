/* Defaults that follow from what this host lets the process take. */
#ifndef SERVER_PROCESS_OPTIONS_LIMITS_H
#define SERVER_PROCESS_OPTIONS_LIMITS_H

#include "common/system/cgroup.h"
#include "server/process/options.h"

/* What psd takes besides data, messages and gradients, without and with a durable directory. */
#define OPTIONS_LIMITS_REST         (64 * MIB)
#define OPTIONS_LIMITS_REST_DURABLE (160 * MIB)
#define OPTIONS_LIMITS_DATA_MIN     (64 * MIB) /* a live directory takes no less: store_dir.h */
#define OPTIONS_LIMITS_BUFFER_MIN   (8 * MIB)  /* of messages, and of gradients, under the lowest limit */

/* After one of the options_apply_ functions of options.h. Under a memory limit, --in-flight, --in-flight-connection and
 * --gather-memory that are not given become smaller, and memory_most what is left for the data; shards of this host
 * share the limit. PS_ERR_CONFIG: nothing would be left. */
enum ps_err options_apply_limits(struct options *o, const struct cgroup_limits *limits, struct ps_error *e) PS_MUST_USE;

/* Whether the sizes that were given do not fit below the limit; a sentence for the log then. */
bool options_limits_exceeded(const struct options *o, const struct cgroup_limits *limits, char *text, size_t size);

#endif
