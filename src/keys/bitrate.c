/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/bitrate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/text.h"

#define QUOTE_BYTES  48
#define NUMBER_BYTES 40
#define WANTED       "write a rate as 10mbit, 1.5gbit or 1.5MB/s (units are kbit, mbit, gbit, KB/s, MB/s, GB/s)"

typedef struct bit_unit {
	const char *name;
	uint64_t bits;
	bool exact; /* upper and lower case differ */
} bit_unit;

/* The first ones are printed, largest first. */
static const bit_unit bit_units[] = {
	{"gbit", UINT64_C(1000000000), false},
	{"mbit", 1000000, false},
	{"kbit", 1000, false},
	{"bit", 1, false},
	{"GB", 8000000000u, true},
	{"MB", 8000000, true},
	{"KB", 8000, true},
	{"kB", 8000, true},
	{"B", 8, true},
};
#define UNITS_PRINTED 4
#define UNITS         (sizeof(bit_units) / sizeof(bit_units[0]))

/* "mbit", "mbit/s", "MB/s"; of bytes "/s" is required, so that a size is not taken for a rate. */
static const bit_unit *find_unit(const char *text)
{
	for (size_t i = 0; i < UNITS; i++) {
		const bit_unit *unit = &bit_units[i];
		size_t length = strlen(unit->name);
		bool same = unit->exact ? strncmp(text, unit->name, length) == 0
					: strncasecmp(text, unit->name, length) == 0;
		if (same && (strcmp(text + length, "/s") == 0 || (!unit->exact && text[length] == '\0')))
			return unit;
	}
	return NULL;
}

static int wrong(const char *text, const char *wanted)
{
	char quoted[QUOTE_BYTES];
	return weir_error_set(-EINVAL, "'%s': %s", weir_text_quote(quoted, sizeof(quoted), text), wanted);
}

static int read_within(const char *text, double least, double most, uint64_t *ret_bits_per_s)
{
	char number[NUMBER_BYTES], low[32], high[32], message[96];
	const char *whole = text != NULL ? text : "";
	const char *begin = whole + strspn(whole, " \t");
	size_t digits = strspn(begin, "0123456789."), gap = strspn(begin + digits, " ");
	const bit_unit *unit = find_unit(begin + digits + gap);
	double value;
	if (digits == 0 || digits >= sizeof(number) || (unit == NULL && strcmp(begin, "0") != 0))
		return wrong(whole, WANTED);
	memcpy(number, begin, digits);
	number[digits] = '\0';
	if (weir_text_number(number, &value) != 0)
		return wrong(whole, WANTED);
	value *= unit != NULL ? (double)unit->bits : 0;
	if (value >= least && value <= most) {
		*ret_bits_per_s = (uint64_t)(value + .5);
		return 0;
	}
	snprintf(message, sizeof(message), "write a rate from %s to %s",
		 weir_bitrate_print(low, sizeof(low), (uint64_t)least),
		 weir_bitrate_print(high, sizeof(high), (uint64_t)most));
	return wrong(whole, message);
}

int weir_bitrate_read(const char *text, uint64_t *ret_bits_per_s)
{
	return read_within(text, (double)WEIR_BITRATE_LEAST, (double)WEIR_BITRATE_MOST, ret_bits_per_s);
}

/* The largest unit in which it needs at most three decimals. */
static const bit_unit *unit_for(uint64_t bits_per_s)
{
	for (size_t i = 0; i < UNITS_PRINTED - 1; i++)
		if (bits_per_s >= bit_units[i].bits && bits_per_s * 1000 % bit_units[i].bits == 0)
			return &bit_units[i];
	return &bit_units[UNITS_PRINTED - 1];
}

char *weir_bitrate_print(char *text, size_t size, uint64_t bits_per_s)
{
	const bit_unit *unit = unit_for(bits_per_s);
	uint64_t whole = bits_per_s / unit->bits, thousandths = bits_per_s % unit->bits * 1000 / unit->bits;
	unsigned decimals = 3;
	for (; decimals > 0 && thousandths % 10 == 0; decimals--)
		thousandths /= 10;
	if (decimals > 0)
		snprintf(text, size, "%" PRIu64 ".%0*" PRIu64 "%s", whole, (int)decimals, thousandths,
			 unit->name);
	else
		snprintf(text, size, "%" PRIu64 "%s", whole, unit->name);
	return text;
}

static int read_form(const weir_key *key, const char *text, void *ret_field)
{
	bool own = key->min > 0 || key->max > 0;
	return read_within(text, own ? key->min : (double)WEIR_BITRATE_LEAST,
			   own ? key->max : (double)WEIR_BITRATE_MOST, ret_field);
}

const weir_key_form weir_bitrate_form = {
	.name = "rate of a link, as 10mbit or 1.5MB/s", .bytes = sizeof(uint64_t), .read = read_form};
