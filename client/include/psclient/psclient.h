/* psclient.h: the library that training workers link. Variables live in a cluster of psd shards; a worker declares
 * them, pulls values, computes gradients, pushes them, and ticks its clock.
 *
 *     ps_cluster *cluster;                 // who is where: TF_CONFIG, a list, or PSD_SHARDS
 *     ps_client *client;
 *     ps_var *w;
 *     ps_cluster_from_env(&cluster, &error);
 *     ps_client_open(cluster, NULL, &client, &error);
 *     ps_client_declare(client, &(struct ps_var_spec){.name = "w", .rank = 2, .dims = {64, 10}, ...}, &w, &error);
 *     while (ps_client_clock(client) < 500) {
 *         ps_client_pull(client, 1, &w, &weights, NULL, &error);
 *         ... gradient of the loss at weights ...
 *         ps_client_push(client, 1, &w, &gradient, NULL, &error);
 *         ps_client_tick(client, &error);
 *     }
 *     ps_client_close(client);
 *
 * The loop ends by the job's clock, not by a count of its own: a worker that starts late or comes again goes on where
 * the others are (ps_client_open()), and would otherwise do its last steps without them.
 *
 * This file includes the parts that a worker with variables on shards needs: ps_cluster.h, ps_client.h, ps_variable.h,
 * ps_op.h, ps_assign.h, ps_admin.h, ps_checkpoint.h, ps_optimizer.h, ps_compress.h and ps_err.h. The others are
 * included by name: ps_strategy.h, ps_group.h, ps_reducer.h, ps_compressor.h, ps_device.h, ps_device_group.h,
 * ps_tensors.h, ps_network.h, ps_data.h, ps_timeline.h. Each can be included alone, in C99 and C++11.
 *
 * Rules that hold everywhere:
 *
 * - Every function that can fail returns enum ps_err and fills *error (may be NULL): the code, a sentence, and the
 *   peer; ps_error_format() makes one line of them. A pointer may be NULL only where its description says so; elsewhere
 *   NULL is PS_ERR_INVALID, where the list of errors says so, or stops the program.
 * - Time-outs are in milliseconds. As an argument, -1 means the client's default (options.timeout_ms) and 0 "do not
 *   wait"; in option structs 0 means the default, too, so that a zeroed struct has all defaults. Every call returns by
 *   its deadline.
 * - TIMEOUT from waiting for a started operation ends the wait alone: the operation goes on, its buffers stay borrowed,
 *   and it may be waited for again. A blocking call cancels what it started: the buffers are free, as after
 *   ps_op_cancel(), and
 *     pull, declare, query, ping   have changed nothing: call again;
 *     push        may have been applied, block by block, or not, and a second call would apply it twice. Go on with the
 *                 next step, or start pushes and wait for them as long as it takes;
 *     tick        has raised the clock and goes on: do not call again;
 *     barrier     was left: a second call enters it again, and waits for everybody if it has opened in between;
 *     assign      may have been done, in all of its blocks, or not: call again, if nobody has changed the values since;
 *     set, drain  may have been done: call again, the same twice is the same as once.
 * - Tensors are float32, row-major, contiguous, in host memory, at least 4-byte aligned (64 is best).
 * - A buffer given to a started operation stays borrowed until the operation is done or cancelled: a gradient until it
 *   is acknowledged, a pull's destination until it is filled. While a pull is not done, what its destination holds is
 *   not defined.
 * - Handles are opaque. A ps_var belongs to its client and lives as long. A ps_op is freed by ps_op_free().
 * - Const: a pointer to const data is borrowed until the call returns (a started operation's buffers: until it is
 *   done), and the library never writes through it. A const handle (const ps_client *) says that the call changes
 *   nothing that another call could show; it is not free of locks, and the rule about threads holds for it, too. A
 *   const char * that is returned belongs to its handle and lives as long; one that is called static lives for ever.
 * - Threads: the calling thread drives the network while it waits; without options.progress_thread, only one thread may
 *   use a client and everything that came from it at a time. With it, a hidden thread drives the network all the time
 *   and any thread may call any function (still: one thread at a time per ps_op). Different clients are independent.
 * - Signals: the library installs no handlers and changes no signal's disposition; SIGPIPE is the program's own, as it
 *   was. A peer that closes its connection is an error of the calls that need it, not a signal. Threads that the
 *   library starts block every signal but those of their own faults (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 *   SIGABRT), so handlers run in the program's threads. ps_interrupt(), ps_interrupted() and ps_client_interrupt()
 *   alone may be called from a handler.
 * - Fork: handles with connections, threads or device memory (ps_client, ps_group, ps_strategy, ps_device and all that
 *   came from them) belong to the process that opened them. A child of fork() may neither use nor close them; it may
 *   exec, _exit, or open its own. Their descriptors are closed by exec. Plain values (ps_cluster, datasets, samplers,
 *   options) are memory, and good in both. */
#ifndef PSCLIENT_H
#define PSCLIENT_H

#include "ps_admin.h"
#include "ps_assign.h"
#include "ps_checkpoint.h"
#include "ps_client.h"
#include "ps_cluster.h"
#include "ps_compress.h"
#include "ps_err.h"
#include "ps_op.h"
#include "ps_optimizer.h"
#include "ps_variable.h"

#endif
