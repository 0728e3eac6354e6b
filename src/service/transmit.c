/* SPDX-License-Identifier: Apache-2.0 */
/* The order of sending (net/transmit.h): made from the configuration, handed over, and shown at the start. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "log/log.h"
#include "net/band.h"
#include "net/transmit.h"
#include "service/handover.h"
#include "service/service_inside.h"
#include "uplink/uplink.h"

#define TRANSMIT_NAME "(uplink)"

/* ---- the kernel's bands ---- */

static int priority(void *arg, uint64_t left, bool plain)
{
	unsigned band = weir_cutoffs_band(arg, left);
	return plain ? weir_band_plain(band) : weir_band_class(band);
}

static void observe(void *arg, uint64_t bytes)
{
	weir_cutoffs_observe(arg, bytes);
}

static void take_bands(const weir_uplink_view *view, void *arg)
{
	unsigned *bands = arg;
	if (view->bands > *bands)
		*bands = view->bands;
}

/*
 * As many bands as a device has. Without any, priorities do no harm and are of no use. Threads use what was found once,
 * so that a later reload does not look again.
 */
static int find_bands(weir_service *service)
{
	unsigned bands = 0;
	if (weir_cutoffs_bands(&service->cutoffs) != 0)
		return 0;
	int devices = weir_uplink_each(take_bands, &bands);
	if (devices <= 0)
		weir_errors_say(service->errors, WEIR_LOG_WARN, "transmit",
				"scheduling is kernel, and no device has queues for it; 'weir uplink install "
				"DEV --rate R' makes them");
	return weir_cutoffs_init(&service->cutoffs,
				 bands > WEIR_CUTOFFS_FIXED ? WEIR_CUTOFFS_ADAPTING : WEIR_CUTOFFS_FIXED);
}

/* ---- over a restart ---- */

#define STATE_BEGIN "uplink "
#define STATE_BYTES 64

/*
 * Reads what the last process has kept; false: nothing. A file that is something else is left alone, now and
 * at the end: somebody has mistyped a name.
 */
static bool recall(weir_service *service, const char *path, char text[static STATE_BYTES])
{
	FILE *file = fopen(path, "re");
	if (file == NULL && errno != ENOENT) {
		weir_errors_say(service->errors, WEIR_LOG_WARN, "transmit", "state: %s cannot be read: %s",
				path, strerror(errno));
		return false;
	}
	size_t length = file != NULL ? fread(text, 1, STATE_BYTES - 1, file) : 0;
	if (file != NULL)
		fclose(file);
	text[length] = '\0';
	if (length > 0 && strncmp(text, STATE_BEGIN, strlen(STATE_BEGIN)) != 0) {
		weir_errors_say(service->errors, WEIR_LOG_WARN, "transmit",
				"state: %s is not a file of weir's; it is left as it is, and nothing is kept",
				path);
		return false;
	}
	text[strcspn(text, "\n")] = '\0';
	service->transmit_state = weir_mem_strdup(path);
	return length > 0;
}

/* Whole or not at all: a file beside it takes its name. */
static bool write_state(const char *path, const char *text)
{
	char beside[PATH_MAX];
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside)) {
		errno = ENAMETOOLONG;
		return false;
	}
	FILE *file = fopen(beside, "we");
	if (file == NULL)
		return false;
	bool written = fprintf(file, "%s\n", text) > 0;
	return fclose(file) == 0 && written && rename(beside, path) == 0;
}

void weir_service_keep_transmit(weir_service *service)
{
	char text[STATE_BYTES];
	if (service->transmit_state == NULL)
		return;
	/* An old estimate is not kept for a link that was not crowded any more. */
	if (!weir_transmit_save(service->transmit, text, sizeof(text)))
		snprintf(text, sizeof(text), STATE_BEGIN "1 0");
	if (!write_state(service->transmit_state, text))
		weir_errors_say(service->errors, WEIR_LOG_WARN, "transmit", "state: %s cannot be written: %s",
				service->transmit_state, strerror(errno));
	weir_mem_free(service->transmit_state);
	service->transmit_state = NULL;
}

/* ---- all ways ---- */

static weir_transmit_options options_of(weir_service *service, const weir_config_transmit *transmit)
{
	return (weir_transmit_options){.policy = &weir_transmit_policies[transmit->scheduling],
				       .uplink_bytes_per_s = transmit->uplink_per_s,
				       .ageing_ns = transmit->ageing_ns,
				       .priority = priority,
				       .observe = observe,
				       .bands_arg = &service->cutoffs};
}

/* Without an order nothing is made, so that nothing is asked for. */
int weir_service_make_transmit(weir_service *service, const weir_config *config)
{
	const weir_config_transmit *transmit = &config->transmit;
	const char *learnt = weir_handover_law(service->things.handover, TRANSMIT_NAME);
	weir_transmit_options options = options_of(service, transmit);
	weir_transmit *made;
	char kept[STATE_BYTES];
	if (transmit->scheduling == 0)
		return 0;
	int failed = options.policy->bands ? find_bands(service) : 0;
	if (failed == 0)
		failed = weir_transmit_new(&options, &made);
	if (failed != 0)
		return failed;
	bool estimated = options.policy->key != NULL && options.uplink_bytes_per_s == 0;
	if (estimated && transmit->state != NULL && recall(service, transmit->state, kept) && learnt == NULL)
		learnt = kept;
	if (learnt != NULL)
		weir_transmit_load(made, learnt);
	weir_http_set_transmit(service->http, made);
	/* The admin's thread reads it. */
	__atomic_store_n(&service->transmit, made, __ATOMIC_RELEASE);
	return 0;
}

static bool same_order(const weir_config_transmit *a, const weir_config_transmit *b)
{
	return a->scheduling == b->scheduling && a->uplink_per_s == b->uplink_per_s &&
	       a->ageing_ns == b->ageing_ns;
}

int weir_service_change_transmit(weir_service *service, const weir_config *config)
{
	if (service->transmit == NULL)
		return weir_service_make_transmit(service, config);
	if (same_order(&service->config->transmit, &config->transmit))
		return 0;
	weir_transmit_options options = options_of(service, &config->transmit);
	int failed = options.policy->bands ? find_bands(service) : 0;
	return failed != 0 ? failed : weir_transmit_change(service->transmit, &options);
}

void weir_service_save_transmit(const weir_service *service, FILE *to)
{
	char text[64];
	if (service->transmit != NULL && weir_transmit_save(service->transmit, text, sizeof(text)))
		weir_handover_put_law(to, TRANSMIT_NAME, text);
}

void weir_service_print_transmit(const weir_service *service, FILE *file)
{
	weir_transmit_stats stats;
	weir_transmit_read(service->transmit, &stats);
	fprintf(file, "  sending by %s: %s", stats.policy, stats.why);
	if (stats.rate_bytes_per_s != 0)
		fprintf(file, "; at %.4g Mbit/s of %.4g", (double)stats.rate_bytes_per_s * 8e-6,
			(double)stats.uplink_bytes_per_s * 8e-6);
	fputc('\n', file);
}
