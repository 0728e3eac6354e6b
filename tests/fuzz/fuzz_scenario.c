/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a scenario. What is refused leaves a sentence of printable bytes that begins with the file; what is accepted keeps its
 * promises: names found, shares that add up, profiles whose next arrival is never before the last. The bytes after the first NUL are a setting as
 * on the command line.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/scenario.h"
#include "target.h"

static void check_profile(const weir_profile *profile)
{
	uint64_t at = 0, last = 0;
	CHECK(profile->segments > 0 && profile->segment[0].at_ns == 0);
	for (unsigned i = 1; i < profile->segments; i++)
		CHECK(profile->segment[i].at_ns > profile->segment[i - 1].at_ns);
	CHECK(weir_profile_peak(profile) >= 0 && isfinite(weir_profile_peak(profile)));
	for (unsigned i = 0; i < 50 && at < UINT64_MAX / 2; i++, last = at) {
		double area = 1;
		at = weir_profile_after(profile, 1, at, UINT64_MAX / 2, &area);
		CHECK(at >= last && area >= 0 && area <= 1);
		CHECK(weir_profile_at(profile, at) >= 0);
	}
}

static void check_shares(const weir_share *shares, unsigned count, unsigned names)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++) {
		CHECK(shares[i].index >= 0 && (unsigned)shares[i].index < names);
		CHECK(shares[i].share > 0 && shares[i].share <= 1);
		sum += shares[i].share;
	}
	CHECK(count == 0 || fabs(sum - 1) < 1e-6);
}

static void check_scenario(const weir_scenario *scenario)
{
	CHECK(scenario->stages > 0 && scenario->loads > 0);
	CHECK(scenario->warmup_ns < scenario->duration_ns && scenario->window_ns > 0);
	for (unsigned i = 0; i < scenario->stages; i++) {
		const weir_scenario_stage *stage = &scenario->stage[i];
		const weir_admission_law *law;
		void *params;
		CHECK(stage->workers > 0 && stage->capacity > 0 &&
		      (stage->service.mean > 0 || stage->backend_index >= 0));
		CHECK(stage->backend_index < (int)scenario->backends);
		check_shares(stage->next.at, stage->next.count, scenario->stages);
		CHECK(weir_scenario_law_of(scenario, stage, &law, &params) == 0);
		weir_mem_free(params);
	}
	for (unsigned i = 0; i < scenario->loads; i++) {
		const weir_scenario_load *load = &scenario->load[i];
		CHECK(load->mix.count + load->chain_count > 0);
		check_shares(load->mix.at, load->mix.count, scenario->types);
		for (unsigned j = 0; j < load->chain_count; j++)
			check_shares(load->chain[j].to.at, load->chain[j].to.count, scenario->types);
		check_profile(&load->rate);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length = strnlen((const char *)data, size);
	weir_scenario *scenario = NULL;
	uint64_t live = weir_mem_live();
	if (weir_scenario_parse("f", (const char *)data, length, &scenario) < 0) {
		check_sentence();
		CHECK(strncmp(weir_error(), "f:", 2) == 0);
		CHECK(scenario == NULL && weir_mem_live() == live);
		return 0;
	}
	if (length < size) {
		char *set = calloc(1, size - length);
		CHECK(set != NULL);
		memcpy(set, data + length + 1, size - length - 1);
		if (weir_scenario_set(scenario, set) < 0)
			check_sentence();
		free(set);
	}
	if (weir_scenario_check(scenario) < 0) {
		check_sentence();
		CHECK(strncmp(weir_error(), "f:", 2) == 0);
	} else {
		check_scenario(scenario);
	}
	weir_scenario_free(&scenario);
	CHECK(weir_mem_live() == live);
	return 0;
}
