/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/inbox.h"

#include <errno.h>

#include "base/mem.h"

int weir_inbox_init(weir_inbox *inbox, uint32_t places)
{
	uint64_t slots = 1;
	while (slots < places)
		slots *= 2;
	inbox->slot = weir_mem_array(slots, sizeof(*inbox->slot));
	if (inbox->slot == NULL)
		return -ENOMEM;
	inbox->mask = slots - 1;
	inbox->head = 0;
	atomic_init(&inbox->tail, 0);
	return 0;
}

void weir_inbox_fini(weir_inbox *inbox)
{
	weir_mem_free(inbox->slot);
	inbox->slot = NULL;
}

void weir_inbox_put(weir_inbox *inbox, weir_event *const *events, size_t count)
{
	/* Not relaxed: the producer before us may have taken the place that made this position free. */
	uint64_t at = atomic_fetch_add_explicit(&inbox->tail, count, memory_order_acq_rel);
	for (size_t i = 0; i < count; i++)
		atomic_store_explicit(&inbox->slot[(at + i) & inbox->mask], events[i], memory_order_release);
}

size_t weir_inbox_take(weir_inbox *inbox, weir_event **ret_events, size_t most)
{
	size_t taken = 0;
	while (taken < most) {
		_Atomic(weir_event *) *slot = &inbox->slot[inbox->head & inbox->mask];
		weir_event *event = atomic_load_explicit(slot, memory_order_acquire);
		if (event == NULL)
			break;
		atomic_store_explicit(slot, NULL, memory_order_relaxed);
		inbox->head++;
		ret_events[taken++] = event;
	}
	return taken;
}
