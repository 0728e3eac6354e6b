/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_SERVICE_SPARE_H
#define WEIR_SERVICE_SPARE_H

/*
 * Memory that a flood has left. The allocator keeps what was freed, which is right while it is needed again
 * soon: so it is given back to the system only when few requests are left, and the process has grown
 * since it was last at rest. Giving back takes milliseconds, and allocations may wait for it; so it is tried at
 * most once a second, and less and less often where it does not help: what a flood has used may be freed in
 * parts. After a minute in vain, what is left counts as what the process needs. It holds no clock: it is asked about once a
 * second.
 *
 * A process that is always busy never is at rest. Each flood leaves free memory in other places of the allocator's
 * arenas, which adds up for hours. So there are no more arenas than serving threads and one, and large blocks are in
 * none: by default, the first one that is freed makes the allocator take the next one from an arena, where what is
 * allocated behind it keeps it. And once a minute, free memory is given back whatever the load is, if it is a twentieth of
 * what the process has; less often where that does not help, since the allocator does not tell what it has given back
 * already. But a process that has grown by a twentieth since then has new memory to look at: it waits a minute at most.
 *
 * Threads: one at a time, and not a reactor.
 */

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_spare {
	uint64_t rest_bytes; /* what the process had when it was last at rest; 0: unknown */
	uint32_t most_busy;  /* requests at once, since then */
	unsigned pause;      /* looks until the next try */
	unsigned in_vain;    /* tries in a row that did not help */
	unsigned looks;      /* until free memory is looked at */
	unsigned in_vain_busy;
	uint64_t left_bytes; /* what the process had after the last try under load */
} weir_spare;

/* Before there is a second thread. threads: those that serve; 0: one per core. */
void weir_spare_begin(unsigned threads);
/* Whether memory should be given back now, with `bytes` in use by the process and `busy` requests in progress. */
bool weir_spare_is_due(weir_spare *spare, uint64_t bytes, uint32_t busy);
/* The same by `free_bytes` that the allocator keeps, whatever the load is. */
bool weir_spare_is_much(weir_spare *spare, uint64_t bytes, uint64_t free_bytes);
void weir_spare_done_busy(weir_spare *spare, uint64_t before_bytes, uint64_t after_bytes);
/* It was given back, and this is left. */
void weir_spare_done(weir_spare *spare, uint64_t before_bytes, uint64_t after_bytes);
/* Looks, and gives back what is due. busy: connections and requests. */
void weir_spare_look(weir_spare *spare, uint32_t busy);

#endif
