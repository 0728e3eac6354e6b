/* SPDX-License-Identifier: Apache-2.0 */
/* The laws by name, in the order of the documentation. */
#include <string.h>

#include <weir/law.h>

static const weir_admission_law *const laws[] = {
	&weir_law_adaptive,
	&weir_law_adaptive_remote,
	&weir_law_value,
	&weir_law_aimd,
	&weir_law_multiclass,
	&weir_law_quality,
	&weir_law_threshold,
	&weir_law_fixed,
	&weir_law_bucket,
	&weir_law_batch,
	&weir_law_police_threshold,
	&weir_law_police_auto,
	&weir_law_red,
	&weir_law_codel,
	&weir_law_gradient,
};

const weir_admission_law *weir_law_at(size_t at)
{
	return at < sizeof(laws) / sizeof(laws[0]) ? laws[at] : NULL;
}

const weir_admission_law *weir_law_find(const char *name)
{
	const weir_admission_law *law;
	for (size_t at = 0; (law = weir_law_at(at)) != NULL; at++)
		if (strcmp(law->name, name) == 0)
			return law;
	return NULL;
}

void weir_law_defaults(const weir_admission_law *law, void *params)
{
	memset(params, 0, law->params_bytes);
	if (law->defaults != NULL)
		law->defaults(params);
}
