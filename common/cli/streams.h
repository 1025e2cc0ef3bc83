/* A program's standard streams. Some launchers close them: then the first files that a program opens would be standard
 * input, output and error, and what it prints would go into its data. */
#ifndef COMMON_CLI_STREAMS_H
#define COMMON_CLI_STREAMS_H

/* Open those that are closed on /dev/null. The first thing that main() does. */
void streams_open(void);

#endif
