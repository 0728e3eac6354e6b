/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_ADMIN_SHEDS_H
#define WEIR_ADMIN_SHEDS_H

/*
 * The last rejected requests, with the numbers that decided. Under overload there are tens of thousands a
 * second: all are counted, at most WEIR_SHEDS_PER_S a second are kept, WEIR_SHEDS_KEPT in all.
 *
 * Threads: any may note, lock-free if this second's share is used up, else under a lock for a copy; any may
 * read.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <weir/http.h>

#define WEIR_SHEDS_KEPT  200u
#define WEIR_SHEDS_PER_S 50u

typedef struct weir_shed {
	uint64_t id; /* 1, 2, ..., of those kept */
	uint64_t at_ns;
	int64_t at_ms; /* since 1970 */
	weir_why why;  /* without its stage, which may be retired meanwhile */
	uint16_t status;
	char method[16], path[160], client[56], route[48], stage[96];
} weir_shed;

typedef struct weir_sheds {
	_Atomic uint64_t total;
	_Atomic uint64_t second; /* which `taken` is about */
	_Atomic uint32_t taken;
	pthread_mutex_t lock;
	/* under lock */
	uint64_t next_id;
	weir_shed ring[WEIR_SHEDS_KEPT]; /* id modulo the size */
} weir_sheds;

void weir_sheds_init(weir_sheds *sheds);
void weir_sheds_fini(weir_sheds *sheds);
void weir_sheds_note(weir_sheds *sheds, const weir_http_record *record, const weir_why *why);
/* Copies those with an id above `after`, newest first; returns how many. */
size_t weir_sheds_read(weir_sheds *sheds, uint64_t after, weir_shed *ret_sheds, size_t most);

#endif
