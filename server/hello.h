/* Hellos of workers: who may hold a worker index.
 *
 *     new incarnation ──► nobody there, or without a connection, lapsed, finished ──► installed: begins from nothing,
 * where │                                                                        the slowest worker stands └──► a live
 * process holds it ──► TASK_TAKEN resume, or the same incarnation again ──► it is there and live ──► attached; its
 * sequences go on └──► nobody: NOT_FOUND; another incarnation, or it said goodbye: FENCED; lapsed: LEASE_LAPSED */
#ifndef SERVER_HELLO_H
#define SERVER_HELLO_H

#include "common/base.h"
#include "common/ps_err.h"
#include "proto/psd.pb-c.h"

struct shard;
struct job;
struct connection;
struct session;

#define HELLO_LEASE_MS_DEFAULT 300000

/* A hello of a worker, once cluster and job are known to be right. Attaches the connection or says why not. */
enum ps_err hello_worker(struct shard *s, struct job *job, struct connection *c, const Psd__Hello *hello,
                         struct session **out, struct ps_error *e) PS_MUST_USE;

#endif
