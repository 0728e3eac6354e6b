/* SPDX-License-Identifier: Apache-2.0 */
#include "control/window.h"

#include <math.h>

/* The response time counted for a refusal further down, in targets. */
#define REFUSED_TARGETS 2

void weir_window_init(weir_window *window, uint32_t size)
{
	window->size = size;
	atomic_init(&window->taken, 0);
	for (uint32_t i = 0; i < WEIR_WINDOW_MAX; i++)
		atomic_init(&window->at[i], 0);
}

void weir_window_add(weir_window *window, uint64_t ns)
{
	uint32_t place = atomic_fetch_add_explicit(&window->taken, 1, memory_order_relaxed) % window->size;
	atomic_store_explicit(&window->at[place], ns != 0 ? ns : 1, memory_order_relaxed);
}

void weir_window_settle(weir_window *window, const weir_event *event, weir_outcome outcome,
			uint64_t target_ns, uint64_t now_ns)
{
	/* The time of entry may come from a thread whose clock is a little ahead. */
	uint64_t response_ns = now_ns > event->entered_ns ? now_ns - event->entered_ns : 0;
	if (outcome == WEIR_REFUSED && response_ns < REFUSED_TARGETS * target_ns)
		response_ns = REFUSED_TARGETS * target_ns;
	if (outcome == WEIR_FAILED && response_ns <= target_ns)
		return;
	weir_window_add(window, response_ns);
}

uint32_t weir_window_count(const weir_window *window)
{
	uint32_t taken = atomic_load_explicit(&window->taken, memory_order_relaxed);
	return taken < window->size ? taken : window->size;
}

uint32_t weir_window_take(weir_window *window, uint64_t *ret_ns)
{
	uint32_t count = 0;
	/*
	 * The count is reset first: a concurrent add overwrites a slot that is about to be read, or
	 * belongs to the next window.
	 */
	atomic_store_explicit(&window->taken, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < window->size; i++) {
		uint64_t ns = 0;
		if (atomic_load_explicit(&window->at[i], memory_order_relaxed) != 0)
			ns = atomic_exchange_explicit(&window->at[i], 0, memory_order_relaxed);
		if (ns != 0)
			ret_ns[count++] = ns;
	}
	return count;
}

/*
 * Hoare's partition: values below the pivot go to the left, those above to the right. Returns the last
 * index of the left part.
 */
static uint32_t partition(uint64_t *ns, uint32_t low, uint32_t high)
{
	uint64_t pivot = ns[low + (high - low) / 2];
	int64_t i = (int64_t)low - 1, j = (int64_t)high + 1;
	for (;;) {
		while (ns[++i] < pivot)
			;
		while (ns[--j] > pivot)
			;
		if (i >= j)
			return (uint32_t)j;
		uint64_t swapped = ns[i];
		ns[i] = ns[j];
		ns[j] = swapped;
	}
}

uint64_t weir_window_quantile(uint64_t *ns, uint32_t count, double q)
{
	/* In binary 0.55 x 100 is a little more than 55. */
	double wish = ceil(q * count - 1e-9);
	uint32_t rank = wish < 1 ? 0 : (wish > count ? count : (uint32_t)wish) - 1;
	uint32_t low = 0, high = count - 1;
	/* A quicksort that only continues in the half that holds the rank. */
	while (low < high) {
		uint32_t middle = partition(ns, low, high);
		if (rank <= middle)
			high = middle;
		else
			low = middle + 1;
	}
	return ns[rank];
}

double weir_window_mean(const uint64_t *ns, uint32_t count)
{
	double sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += (double)ns[i];
	return sum / count;
}
