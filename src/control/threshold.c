/* SPDX-License-Identifier: Apache-2.0 */
/* SEDA's load shedding: a queue longer than the class's threshold takes no more of that class. */
#include <errno.h>

#include <weir/law.h>

static int threshold_init(void *state, const void *params, const char **ret_wrong)
{
	if (params == NULL) {
		*ret_wrong = "parameters are required (weir_threshold_params)";
		return -EINVAL;
	}
	*(weir_threshold_params *)state = *(const weir_threshold_params *)params;
	return 0;
}

/* Several threads: the state is constant. */
static weir_verdict threshold_admit(void *state, const weir_ask *ask)
{
	const weir_threshold_params *params = state;
	uint32_t most = params->waiting[ask->klass % WEIR_CLASSES];
	if (most != 0 && (uint64_t)ask->waiting + ask->count > most)
		return WEIR_SHED_THRESHOLD;
	return WEIR_ADMITTED;
}

const weir_admission_law weir_law_threshold = {
	.name = "threshold",
	.state_bytes = sizeof(weir_threshold_params),
	.params_bytes = sizeof(weir_threshold_params),
	.init = threshold_init,
	.admit = threshold_admit,
};
