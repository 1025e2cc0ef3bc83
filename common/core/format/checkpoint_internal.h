/* Shared by the files of a checkpoint's manifest: checkpoint.c (the struct), checkpoint_text.c (written),
 * checkpoint_parse.c (read). */
#ifndef COMMON_CORE_FORMAT_CHECKPOINT_INTERNAL_H
#define COMMON_CORE_FORMAT_CHECKPOINT_INTERNAL_H

#include "common/core/format/checkpoint.h"

enum ps_err checkpoint_no_memory(struct ps_error *e);

/* A message's bytes, freed by the caller; NULL: no memory. */
uint8_t *checkpoint_pack(const ProtobufCMessage *m, size_t *len);

/* As checkpoint_set_job() and checkpoint_add(), with packed messages. */
enum ps_err checkpoint_set_job_packed(struct checkpoint *c, struct span declared, struct span now,
                                      struct ps_error *e) PS_MUST_USE;
enum ps_err checkpoint_add_packed(struct checkpoint *c, struct span declared, struct span now,
                                  struct ps_error *e) PS_MUST_USE;

/* The end of a manifest's text is the checksum of what comes before it. PS_ERR_DATA. */
enum ps_err checkpoint_check_seal(struct span text, struct ps_error *e) PS_MUST_USE;

#endif
