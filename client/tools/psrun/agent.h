/* psrun's agent on another machine: `psrun @remote`, as ssh starts it there. It takes one order, runs it as psrun runs
 * processes on its own machine (process.h, supervisor.h), and sends back events; remote.h has the protocol.
 *
 *     the lifeline ended, or was silent     all below get KILL; the agent ends when they have
 *     the agent died                        its supervisor kills all below
 *     psrun stops reading                   the program waits, as it would on a full pipe */
#ifndef CLIENT_TOOLS_PSRUN_AGENT_H
#define CLIENT_TOOLS_PSRUN_AGENT_H

/* Runs the agent to its end. exe: psrun's own path. Returns the exit status. */
int agent_main(const char *exe);

#endif
