/* SPDX-License-Identifier: Apache-2.0 */
#include "load/spread.h"

static uint32_t get(const load_spread *spread, unsigned index)
{
	return atomic_load_explicit(&spread->bucket[index], memory_order_relaxed);
}

void load_spread_merge(load_spread *into, const load_spread *from)
{
	for (unsigned i = 0; i < LOAD_SPREAD_BUCKETS; i++)
		atomic_store_explicit(&into->bucket[i], get(into, i) + get(from, i), memory_order_relaxed);
}

void load_spread_put(weir_hist *into, const load_spread *from)
{
	for (unsigned i = 0; i < LOAD_SPREAD_BUCKETS; i++)
		weir_hist_bump(&into->bucket[LOAD_SPREAD_FIRST + i], get(from, i));
}
