/* SPDX-License-Identifier: Apache-2.0 */
/* What all threads share: policies, the rate, what is shown and what a successor gets. */
#include "net/transmit.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "net/transmit_priv.h"

#define AGEING_NS   (30 * WEIR_NS_PER_S)
#define KNOWN_AT    .97 /* of a known uplink: 2 % above its rate would lose everything */
#define BURST_NS    (2 * WEIR_NS_PER_MS)
#define CHUNK_NS    WEIR_NS_PER_MS /* a chunk takes the uplink about this long, */
#define CHUNK_MOST  (45 * WEIR_TRANSMIT_SEGMENT)
#define INTERVAL_NS (30 * WEIR_NS_PER_MS)
#define RATE_LEAST  1250u /* bytes per second: 10 kbit/s */
#define RATE_MOST   (UINT64_C(1000000000000) / 8)

/* ---- policies ---- */

static double by_size(uint64_t left, double age, unsigned klass)
{
	return log(left > 0 ? (double)left : 1) + age;
}

/* No key of a class comes near this within centuries, and the logarithm keeps nine digits. */
static double by_class(uint64_t left, double age, unsigned klass)
{
	return 1e6 * klass + fmin(by_size(left, age, 0), 1e6 - 1);
}

const weir_transmit_policy weir_transmit_policies[] = {{.name = "fair"},
						       {.name = "srpt", .key = by_size},
						       {.name = "classes", .key = by_class},
						       {.name = "kernel", .bands = true},
						       {0}};

double weir_transmit_key(const weir_transmit *transmit, uint64_t left, uint64_t since_ns, unsigned klass)
{
	const weir_transmit_policy *policy = weir_transmit_policy_of(transmit);
	uint64_t after_ns = since_ns > transmit->began_ns ? since_ns - transmit->began_ns : 0;
	double age =
		(double)after_ns / (double)atomic_load_explicit(&transmit->ageing_ns, memory_order_relaxed);
	/* What still waits when there is no order any more goes by size. */
	return (policy->key != NULL ? policy->key : by_size)(left, age, klass);
}

/* ---- the rate ---- */

static uint32_t chunk_for(double bytes_per_s)
{
	double segments = floor(bytes_per_s * CHUNK_NS / WEIR_NS_PER_S / WEIR_TRANSMIT_SEGMENT);
	double bytes = fmax(segments, 1) * WEIR_TRANSMIT_SEGMENT;
	return bytes < CHUNK_MOST ? (uint32_t)bytes : CHUNK_MOST;
}

void weir_transmit_pace(weir_transmit *transmit, double bytes_per_s)
{
	if (bytes_per_s <= 0) {
		atomic_store_explicit(&transmit->way, WEIR_TRANSMIT_AT_ONCE, memory_order_relaxed);
		return;
	}
	uint32_t chunk = chunk_for(bytes_per_s);
	double two_ns = 2. * (double)weir_transmit_wire(chunk, WEIR_TRANSMIT_SEGMENT) / bytes_per_s * 1e9;
	weir_transmit_budget_rate(&transmit->budget, (uint64_t)bytes_per_s,
				  two_ns > BURST_NS ? (uint64_t)two_ns : BURST_NS);
	atomic_store_explicit(&transmit->chunk, chunk, memory_order_relaxed);
	atomic_store_explicit(&transmit->way, WEIR_TRANSMIT_IN_TURN, memory_order_relaxed);
}

/* ---- made and freed ---- */

static int check(const weir_transmit_options *options, bool has_bands)
{
	uint64_t rate = options->uplink_bytes_per_s;
	if (options->policy == NULL || (options->policy->bands && !has_bands))
		return weir_error_set(-EINVAL, "transmit: a policy is needed, and for kernel its priorities");
	if (rate != 0 && (rate < RATE_LEAST || rate > RATE_MOST))
		return weir_error_set(-EINVAL, "transmit: an uplink has from 10kbit to 1000gbit");
	return 0;
}

/* The order, and the rate that goes with it. Under lock, unless nobody else has it yet. */
static void set_order(weir_transmit *transmit, const weir_transmit_options *options)
{
	const weir_transmit_policy *policy = options->policy;
	uint64_t rate = options->uplink_bytes_per_s;
	atomic_store_explicit(&transmit->policy, policy, memory_order_relaxed);
	atomic_store_explicit(&transmit->uplink_bytes_per_s, rate, memory_order_relaxed);
	weir_transmit_estimate_init(&transmit->estimate, 0);
	weir_transmit_pace(transmit, policy->key != NULL ? KNOWN_AT * (double)rate : 0);
	/* Whoever sees it also sees what its functions need, which may have been made just now. */
	if (policy->bands)
		atomic_store_explicit(&transmit->way, WEIR_TRANSMIT_IN_BAND, memory_order_release);
}

static void set_ageing(weir_transmit *transmit, const weir_transmit_options *options)
{
	atomic_store_explicit(&transmit->ageing_ns, options->ageing_ns != 0 ? options->ageing_ns : AGEING_NS,
			      memory_order_relaxed);
}

int weir_transmit_new(const weir_transmit_options *options, weir_transmit **ret_transmit)
{
	int error = check(options, options->priority != NULL);
	if (error != 0)
		return error;
	weir_transmit *transmit = weir_mem_aligned(64, (sizeof(*transmit) + 63) & ~(size_t)63);
	weir_transmit_face *face = weir_mem_aligned(64, WEIR_TRANSMIT_LANES * sizeof(*face));
	if (transmit == NULL || face == NULL) {
		weir_mem_free(transmit);
		weir_mem_free(face);
		return weir_error_set(-ENOMEM, "transmit: out of memory");
	}
	transmit->priority = options->priority;
	transmit->observe = options->observe;
	transmit->bands_arg = options->bands_arg;
	transmit->face = face;
	transmit->began_ns = weir_clock_ns();
	for (unsigned i = 0; i < WEIR_TRANSMIT_LANES; i++)
		atomic_init(&face[i].best, WEIR_TRANSMIT_NOBODY);
	atomic_init(&transmit->refs, 1);
	atomic_init(&transmit->interval_ns, INTERVAL_NS);
	atomic_init(&transmit->chunk, CHUNK_MOST);
	pthread_mutex_init(&transmit->lock, NULL);
	weir_transmit_budget_init(&transmit->budget, 0, BURST_NS, transmit->began_ns);
	set_ageing(transmit, options);
	set_order(transmit, options);
	atomic_init(&transmit->version, 1);
	*ret_transmit = transmit;
	return 0;
}

int weir_transmit_change(weir_transmit *transmit, const weir_transmit_options *options)
{
	int error = check(options, transmit->priority != NULL);
	if (error != 0)
		return error;
	pthread_mutex_lock(&transmit->lock);
	set_ageing(transmit, options);
	/* What an estimate has learnt is kept, if it is one as before. */
	if (options->policy != weir_transmit_policy_of(transmit) ||
	    options->uplink_bytes_per_s != weir_transmit_known(transmit))
		set_order(transmit, options);
	atomic_fetch_add_explicit(&transmit->version, 1, memory_order_release);
	pthread_mutex_unlock(&transmit->lock);
	return 0;
}

weir_transmit *weir_transmit_ref(weir_transmit *transmit)
{
	atomic_fetch_add_explicit(&transmit->refs, 1, memory_order_relaxed);
	return transmit;
}

void weir_transmit_unref(weir_transmit *transmit)
{
	if (transmit == NULL || atomic_fetch_sub_explicit(&transmit->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_destroy(&transmit->lock);
	weir_mem_free(transmit->face);
	weir_mem_free(transmit);
}

/* ---- for a successor ---- */

bool weir_transmit_save(weir_transmit *transmit, char *text, size_t size)
{
	pthread_mutex_lock(&transmit->lock);
	double link = transmit->estimate.phase != WEIR_TRANSMIT_OPEN ? transmit->estimate.link_per_s : 0;
	pthread_mutex_unlock(&transmit->lock);
	if (link < RATE_LEAST)
		return false;
	int length = snprintf(text, size, "uplink 1 %.0f", link);
	return length > 0 && (size_t)length < size;
}

void weir_transmit_load(weir_transmit *transmit, const char *text)
{
	uint64_t link;
	int used = 0;
	if (!weir_transmit_estimates(transmit) || sscanf(text, "uplink 1 %" SCNu64 "%n", &link, &used) != 1 ||
	    text[used] != '\0' || link < RATE_LEAST || link > RATE_MOST)
		return;
	pthread_mutex_lock(&transmit->lock);
	weir_transmit_estimate_init(&transmit->estimate, (double)link);
	weir_transmit_pace(transmit, KNOWN_AT * (double)link);
	pthread_mutex_unlock(&transmit->lock);
}

/* ---- what is shown ---- */

static const char *why(const weir_transmit *transmit, weir_transmit_phase phase)
{
	const weir_transmit_policy *policy = weir_transmit_policy_of(transmit);
	if (policy->bands)
		return "the kernel orders packets by the size that is left";
	if (policy->key == NULL)
		return "no scheduling is configured";
	if (weir_transmit_known(transmit) != 0)
		return "the rate of the uplink is configured";
	return phase == WEIR_TRANSMIT_OPEN ? "no bottleneck has been found at the uplink"
					   : "round trips grew while answers waited";
}

static uint64_t get(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static void add_face(weir_transmit_stats *stats, const weir_transmit_face *face)
{
	stats->waiting += get(&face->waiting);
	stats->left_bytes += get(&face->left_bytes);
	stats->sent_bytes += get(&face->sent_bytes);
	stats->repeated_bytes += get(&face->repeated_bytes);
	stats->chunks += get(&face->chunks);
	stats->overtook += get(&face->overtook);
	for (unsigned i = 0; i < WEIR_TRANSMIT_SIZES; i++)
		stats->size[i] += get(&face->size[i]);
}

void weir_transmit_read(weir_transmit *transmit, weir_transmit_stats *ret_stats)
{
	pthread_mutex_lock(&transmit->lock);
	const weir_transmit_policy *policy = weir_transmit_policy_of(transmit);
	uint64_t rate = weir_transmit_known(transmit);
	weir_transmit_estimate estimate = transmit->estimate;
	weir_transmit_stats stats = {.probes = transmit->probes, .back_offs = transmit->back_offs};
	pthread_mutex_unlock(&transmit->lock);
	bool known = rate != 0, ordered = policy->key != NULL;
	stats.policy = policy->name;
	stats.uplink = !ordered ? "" : known ? "known" : "auto";
	stats.phase = !ordered || known ? "" : weir_transmit_phase_name(estimate.phase);
	stats.why = why(transmit, estimate.phase);
	stats.uplink_bytes_per_s = known ? rate : (uint64_t)estimate.link_per_s;
	if (weir_transmit_is_limited(transmit))
		stats.rate_bytes_per_s = get(&transmit->budget.bytes_per_s);
	uint32_t lanes = atomic_load_explicit(&transmit->lanes, memory_order_acquire);
	for (uint32_t i = 0; i < lanes; i++)
		add_face(&stats, &transmit->face[i]);
	*ret_stats = stats;
}

#define ROW(name, type, member, help)                                                 \
	{                                                                             \
		name, WEIR_METRIC_##type, offsetof(weir_transmit_stats, member), help \
	}

const weir_metric weir_transmit_metrics[] = {
	ROW("policy", TEXT, policy, "The order in which answers are sent."),
	ROW("uplink", TEXT, uplink, "Whether the rate of the uplink is known, or estimated."),
	ROW("phase", TEXT, phase, "What the estimate is doing: open, cruise, probe or drain."),
	ROW("why", TEXT, why, "Why it is so."),
	ROW("rate_bytes_per_s", GAUGE, rate_bytes_per_s,
	    "The rate at which answers are sent, with headers; 0: no limit."),
	ROW("uplink_bytes_per_s", GAUGE, uplink_bytes_per_s,
	    "What the uplink is believed to carry, with headers; 0: unknown."),
	ROW("waiting", GAUGE, waiting, "Connections that wait for their turn to send."),
	ROW("waiting_to_4kb", GAUGE, size[0], "Of these: with at most 4 KB left."),
	ROW("waiting_to_32kb", GAUGE, size[1], "Of these: with more, and at most 32 KB left."),
	ROW("waiting_to_256kb", GAUGE, size[2], "Of these: with more, and at most 256 KB left."),
	ROW("waiting_to_2mb", GAUGE, size[3], "Of these: with more, and at most 2 MB left."),
	ROW("waiting_above_2mb", GAUGE, size[4], "Of these: with more than 2 MB left."),
	ROW("left_bytes", GAUGE, left_bytes, "Bytes left of the answers that wait."),
	ROW("sent_bytes", COUNTER, sent_bytes, "Bytes sent by scheduled connections, with headers."),
	ROW("repeated_bytes", COUNTER, repeated_bytes, "Bytes that TCP has sent again."),
	ROW("chunks", COUNTER, chunks, "Pieces of answers that were sent in their turn."),
	ROW("overtook", COUNTER, overtook,
	    "Of these: sent before an answer that had waited longer and still waits."),
	ROW("probes", COUNTER, probes, "Times that the estimate was tested by sending more."),
	ROW("back_offs", COUNTER, back_offs, "Times that the estimate was lowered."),
	{0}};

bool weir_conn_is_scheduled(const weir_conn *conn)
{
	return weir_conn_is(conn, WEIR_CONN_SCHEDULED);
}
