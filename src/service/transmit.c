/* SPDX-License-Identifier: Apache-2.0 */
/* The order of sending (net/transmit.h): made from the configuration, handed over, and shown at the start. */
#include <stdio.h>

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

/* As many bands as a device has. Without any, priorities do no harm and are of no use. */
static int find_bands(weir_service *service)
{
	unsigned bands = 0;
	int devices = weir_uplink_each(take_bands, &bands);
	if (devices <= 0)
		weir_errors_say(service->errors, WEIR_LOG_WARN, "transmit",
				"scheduling is kernel, and no device has queues for it; 'weir uplink install "
				"DEV --rate R' makes them");
	return weir_cutoffs_init(&service->cutoffs,
				 bands > WEIR_CUTOFFS_FIXED ? WEIR_CUTOFFS_ADAPTING : WEIR_CUTOFFS_FIXED);
}

/* ---- all ways ---- */

int weir_service_make_transmit(weir_service *service)
{
	const weir_config_transmit *transmit = &service->config->transmit;
	const char *learnt = weir_handover_law(service->things.handover, TRANSMIT_NAME);
	weir_transmit_options options = {.policy = &weir_transmit_policies[transmit->scheduling],
					 .uplink_bytes_per_s = transmit->uplink_per_s,
					 .ageing_ns = transmit->ageing_ns};
	weir_transmit *made;
	if (transmit->scheduling == 0)
		return 0;
	if (options.policy->bands) {
		int failed = find_bands(service);
		if (failed != 0)
			return failed;
		options.priority = priority;
		options.observe = observe;
		options.bands_arg = &service->cutoffs;
	}
	int failed = weir_transmit_new(&options, &made);
	if (failed != 0)
		return failed;
	if (learnt != NULL)
		weir_transmit_load(made, learnt);
	weir_http_set_transmit(service->http, made);
	/* The admin's thread reads it. */
	__atomic_store_n(&service->transmit, made, __ATOMIC_RELEASE);
	return 0;
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
