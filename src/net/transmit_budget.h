/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_BUDGET_H
#define WEIR_NET_TRANSMIT_BUDGET_H

/*
 * The bytes that all threads together may send: a token bucket in one word. The word is the time at which
 * everything taken so far is paid for. Taking bytes moves it on by the time that the uplink needs for them.
 * Credit is what lies between that time and now; it never grows beyond the burst.
 *
 * A taker needs no credit for all of its bytes, only that there is no debt (or, with a reserve, that much
 * credit). So the bytes sent between any two times are at most rate x time + burst + the largest piece.
 *
 * Threads: any. One compare-and-swap for each piece, no lock. Time is an argument.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weir_transmit_budget {
	_Atomic uint64_t paid_ns;
	_Atomic uint64_t bytes_per_s; /* 0: no limit */
	_Atomic uint64_t burst_ns;
} weir_transmit_budget;

void weir_transmit_budget_init(weir_transmit_budget *budget, uint64_t bytes_per_s, uint64_t burst_ns,
			       uint64_t now_ns);
/* Changes the rate from now on. A debt stays as long as it was in time. */
void weir_transmit_budget_rate(weir_transmit_budget *budget, uint64_t bytes_per_s, uint64_t burst_ns);
/* Takes the bytes if there is no debt, and at least this credit. false: nothing was taken. */
bool weir_transmit_budget_take(weir_transmit_budget *budget, uint64_t bytes, uint64_t reserve_ns,
			       uint64_t now_ns);
/* Takes bytes that have been sent anyway. */
void weir_transmit_budget_charge(weir_transmit_budget *budget, uint64_t bytes, uint64_t now_ns);
/* Gives back bytes that were taken and not sent. */
void weir_transmit_budget_refund(weir_transmit_budget *budget, uint64_t bytes);
/* From when on a take with this reserve succeeds, if nobody else takes. */
uint64_t weir_transmit_budget_ready(const weir_transmit_budget *budget, uint64_t reserve_ns);

#endif
