/* What drops need of ids and ordinals, kept in the store: which ids are not given again, and rows that say the ordinals
 * of their variables. */
#ifndef SERVER_CORE_DURABILITY_DROP_IDS_H
#define SERVER_CORE_DURABILITY_DROP_IDS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct shard;

/* Ids that variables have had are not given again in this life of the data; and an earlier psd, which does not know
 * that ids and ordinals may have gaps, refuses the store from now on. Within the turn's transaction, which has room for
 * two rows. */
enum ps_err drop_ids_put(struct shard *s) PS_MUST_USE;

/* Before the variables are loaded. */
enum ps_err drop_ids_load(struct shard *s) PS_MUST_USE;

/* Rows of before variables could be dropped do not say their ordinals, which follow from the variables before them:
 * they are written again, once. Between turns. False: the store has no room, or fails; nothing may be dropped then. */
bool drop_number_rows(struct shard *s);

#endif
