/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket without a lock and without a refill: the generic cell rate algorithm. The only state is
 * the time at which the bucket will be full again ("full_at"). An ask for n tokens moves it n token times
 * later, starting from now at the earliest. The ask is granted if full_at is then at most a burst ahead
 * of now.
 *
 *  tokens in the bucket = burst - max(0, full_at - now) / time of a token
 *
 * Time is not measured in ns, but in units of which a token takes exactly a power of two; there are one
 * to two units per ns. So taking tokens rounds nothing at any rate, and nothing drifts however many are
 * taken. Only reading the clock rounds: down, by less than a ns. Units fit into 64 bits for the first 146
 * years.
 */
#include "control/bucket.h"

#include <errno.h>
#include <math.h>

#include <weir/law.h>

#define SPEED_BITS   62
#define BURST_UNITS  0x1p61 /* largest burst whose sums still fit into 64 bits */
#define BURST_WANTED "burst must be 0 (then rate / 10) or from 1 to what refills within 70 years"

/* ---- the component ---- */

int weir_bucket_init(weir_bucket *b, double rate_per_s, double burst, const char **ret_wrong)
{
	int exponent;
	if (!(rate_per_s >= WEIR_BUCKET_RATE_MIN && rate_per_s <= WEIR_BUCKET_RATE_MAX)) {
		*ret_wrong = "rate must be from 0.000001 to 1000000000 a second";
		return -EINVAL;
	}
	if (burst == 0)
		burst = fmax(rate_per_s / 10, 1);
	double fraction = frexp(rate_per_s / 1e9, &exponent); /* tokens per ns, as fraction 2^exponent */
	unsigned shift = (unsigned)(1 - exponent);
	if (!(burst >= 1 && ldexp(burst, (int)shift) <= BURST_UNITS)) {
		*ret_wrong = BURST_WANTED;
		return -EINVAL;
	}
	b->token_shift = shift;
	b->speed = (uint64_t)ldexp(fraction, SPEED_BITS + 1);
	b->burst_units = (uint64_t)ldexp(burst, (int)shift);
	atomic_init(&b->full_at, 0);
	return 0;
}

static uint64_t units_at(const weir_bucket *b, uint64_t now_ns)
{
	return (uint64_t)((unsigned __int128)now_ns * b->speed >> SPEED_BITS);
}

/* The first ns at which units_at is not less than units. */
static uint64_t ns_at(const weir_bucket *b, uint64_t units)
{
	unsigned __int128 scaled = (unsigned __int128)units << SPEED_BITS;
	return (uint64_t)((scaled + b->speed - 1) / b->speed);
}

/*
 * Whether this is more than the bucket can ever hold. Checked first, as the product of such a count may
 * overflow.
 */
static bool never(const weir_bucket *b, uint32_t count)
{
	return count > b->burst_units >> b->token_shift;
}

bool weir_bucket_take(weir_bucket *b, uint64_t now_ns, uint32_t count)
{
	if (never(b, count))
		return false;
	uint64_t now = units_at(b, now_ns), take = (uint64_t)count << b->token_shift, then;
	uint64_t full_at = atomic_load_explicit(&b->full_at, memory_order_relaxed);
	do {
		then = (full_at > now ? full_at : now) + take;
		if (then - now > b->burst_units)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&b->full_at, &full_at, then, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

void weir_bucket_give_back(weir_bucket *b, uint32_t count)
{
	/* If full_at falls before now the bucket is full, and the excess is lost at the next take. */
	uint64_t back = (uint64_t)count << b->token_shift, then;
	uint64_t full_at = atomic_load_explicit(&b->full_at, memory_order_relaxed);
	do
		then = full_at > back ? full_at - back : 0;
	while (!atomic_compare_exchange_weak_explicit(&b->full_at, &full_at, then, memory_order_relaxed,
						      memory_order_relaxed));
}

uint64_t weir_bucket_retry_ns(const weir_bucket *b, uint64_t now_ns, uint32_t count)
{
	if (never(b, count))
		return 0;
	uint64_t full_at = atomic_load_explicit(&b->full_at, memory_order_relaxed);
	uint64_t then = full_at + ((uint64_t)count << b->token_shift);
	uint64_t at_ns = then > b->burst_units ? ns_at(b, then - b->burst_units) : 0;
	return at_ns > now_ns ? at_ns - now_ns : 0;
}

/* ---- the law ---- */

static int bucket_init(void *state, const void *params, const char **ret_wrong)
{
	const weir_bucket_params *p = params;
	if (p == NULL) {
		*ret_wrong = "parameters are required (weir_bucket_params)";
		return -EINVAL;
	}
	return weir_bucket_init(state, p->rate_per_s, p->burst, ret_wrong);
}

static weir_verdict bucket_admit(void *state, const weir_ask *ask)
{
	return weir_bucket_take(state, ask->now_ns, ask->count) ? WEIR_ADMITTED : WEIR_SHED_RATE;
}

static void bucket_refund(void *state, const weir_ask *ask)
{
	weir_bucket_give_back(state, ask->count);
}

static void bucket_explain(const void *state, const weir_ask *ask, weir_why *ret_why)
{
	ret_why->retry_after_ns = weir_bucket_retry_ns(state, ask->now_ns, ask->count);
}

static const weir_key bucket_params[] = {
	WEIR_KEY("rate", NUMBER, weir_bucket_params, rate_per_s, NULL, "Events per second, on average",
		 .flags = WEIR_KEY_REQUIRED, .min = WEIR_BUCKET_RATE_MIN, .max = WEIR_BUCKET_RATE_MAX),
	WEIR_KEY("burst", NUMBER, weir_bucket_params, burst, NULL,
		 "Events at once; 0: those of a tenth of a second, at least 1", .max = 1e18),
	{.name = NULL},
};

const weir_admission_law weir_law_bucket = {
	.name = "bucket",
	.brief = "a token bucket: a rate on average, a burst at once",
	.state_bytes = sizeof(weir_bucket),
	.params_bytes = sizeof(weir_bucket_params),
	.params = bucket_params,
	.init = bucket_init,
	.admit = bucket_admit,
	.refund = bucket_refund,
	.explain = bucket_explain,
};
