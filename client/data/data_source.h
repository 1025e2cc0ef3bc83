/* The file that examples are from, before a sentence about them. Pure. */
#ifndef CLIENT_DATA_DATA_SOURCE_H
#define CLIENT_DATA_DATA_SOURCE_H

#define DATA_SOURCE_MAX 320 /* of a file's name in a sentence */

/* "FILE: " in out, cut off to its size, or "" for NULL, which is examples that the program made itself. Returns out. */
const char *data_source(const char *file, char out[DATA_SOURCE_MAX]);

#endif
