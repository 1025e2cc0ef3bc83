/* The number of a job's workers changes: between two rounds, when nobody trains.
 *
 *     no worker is live ──┬─► the first that comes brings another number ──┬─► a new round begins, with so many
 *                         └─► psctl set workers=N ─────────────────────────┘
 *
 * In a round all have one number, because each divides the data by it: who comes with another one while a worker is
 * live, or before anybody has joined the round that a SET began, is refused, with what the job has and why it keeps it.
 * A quorum of all stays one of all; another stays as it is. Blocks, clocks and settings go on.
 *
 * A shard that lost the beginning of a round to a power loss learns of it by the round in the hello of one of its
 * workers. Rows of the job keep the number; sessions of workers that are no more stay, as those of an older round. */
#ifndef SERVER_CORE_SHARD_RESIZE_H
#define SERVER_CORE_SHARD_RESIZE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct shard;
struct job;

/* A worker says hello to a job whose other options are its own. PS_ERR_MISMATCH: it says another number than the job
 * has, and too early or too late for that; PS_ERR_LIMIT, PS_ERR_NOMEM: no room for so many. */
enum ps_err resize_by_hello(struct shard *s, struct job *job, const Psd__Hello *hello, struct ps_error *e) PS_MUST_USE;

/* Whether a SET may give it so many: PS_ERR_INVALID, PS_ERR_LIMIT, PS_ERR_NOMEM; then it is to do so. False: it has
 * them already. */
enum ps_err resize_check(struct shard *s, struct job *job, uint32_t workers, struct ps_error *e) PS_MUST_USE;
bool resize_by_set(struct shard *s, struct job *job, uint32_t workers);

#endif
