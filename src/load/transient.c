/* SPDX-License-Identifier: Apache-2.0 */
/* Text forms of schedules: a phase, and the transient workloads by name. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"
#include "load/arrive.h"

#define MS WEIR_NS_PER_MS
#define S  WEIR_NS_PER_S

#define PHASE_WANTED "write a length and a rate: '10s@500' (500 a second), '10s@1.4x' (times capacity)"

static bool ends_with_x(const char *text)
{
	size_t length = strlen(text);
	while (length > 0 && text[length - 1] == ' ')
		length--;
	return length > 0 && text[length - 1] == 'x';
}

bool load_phase_is_multiple(const char *text)
{
	return strchr(text, '@') != NULL && ends_with_x(text);
}

/* "500", "500/s", "1.4x". */
static int read_rate(char *text, double capacity, double *ret_rate)
{
	size_t length = strlen(text);
	double number, times = 1;
	while (length > 0 && text[length - 1] == ' ')
		text[--length] = '\0';
	if (ends_with_x(text)) {
		if (!(capacity > 0))
			return weir_error_set(
				-EINVAL,
				"a rate with an x is a multiple of the capacity, and none is known here");
		text[length - 1] = '\0';
		times = capacity;
	} else if (length > 2 && strcmp(text + length - 2, "/s") == 0) {
		text[length - 2] = '\0';
	}
	if (weir_text_number(text, &number) < 0 || !(number >= 0 && number * times <= LOAD_RATE_MAX))
		return weir_error_set(-EINVAL, "a rate is a number from 0 to %g a second", LOAD_RATE_MAX);
	*ret_rate = number * times;
	return 0;
}

int load_phase_parse(const char *text, double capacity, load_phase *ret)
{
	char copy[100], quoted[48];
	load_phase phase;
	weir_text_quote(quoted, sizeof quoted, text);
	const char *at = strchr(text, '@');
	if (at == NULL || strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, "'%s' is not a phase; " PHASE_WANTED, quoted);
	memcpy(copy, text, strlen(text) + 1);
	char *rate = copy + (at - text);
	*rate++ = '\0';
	if (weir_text_time(copy, &phase.length_ns) < 0 || phase.length_ns == 0 ||
	    phase.length_ns > LOAD_LENGTH_MAX)
		return weir_error_set(-EINVAL,
				      "'%s': a phase lasts longer than 0, and at most 1000h; " PHASE_WANTED,
				      quoted);
	if (read_rate(rate, capacity, &phase.rate) < 0)
		return weir_error_set(-EINVAL, "'%s': %s; " PHASE_WANTED, quoted, weir_error());
	*ret = phase;
	return 0;
}

/* Table I, as printed. */
static const load_transient transients[LOAD_TRANSIENTS] = {
	{"W1", false, 25 * S, 25 * S, 0.2, 1.2, 0.7}, {"W2", false, 10 * S, 10 * S, 0.2, 1.2, 0.7},
	{"W3", false, 50 * S, 50 * S, 0.2, 1.6, 0.9}, {"W4", false, 25 * S, 25 * S, 0.4, 1.4, 0.9},
	{"W5", false, 10 * S, 10 * S, 0.4, 1.4, 0.9}, {"W6", false, 40 * S, 40 * S, 0.1, 1.7, 0.9},
	{"W7", true, 63 * S, 6 * S, 0.4, 5, 0.8},     {"W8", true, 63 * S, 10 * S, 0.45, 3, 0.8},
	{"W9", true, 20 * S, 3 * S, 0.735, 2, 0.9},   {"W10", true, 13300 * MS, 2 * S, 0.735, 2, 0.9},
};

const load_transient *load_transient_at(unsigned at)
{
	return at < LOAD_TRANSIENTS ? &transients[at] : NULL;
}

const load_transient *load_transient_find(const char *name)
{
	for (unsigned i = 0; i < LOAD_TRANSIENTS; i++)
		if (strcasecmp(transients[i].name, name) == 0)
			return &transients[i];
	return NULL;
}

void load_transient_phases(const load_transient *transient, double capacity, load_phase ret[2])
{
	ret[0] = (load_phase){transient->low_ns, transient->low * capacity};
	ret[1] = (load_phase){transient->high_ns, transient->high * capacity};
}
