/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times and percentiles are read as decimals, digit by digit into integers, and scaled once at the end.
 * So "0.3s" is 300000000 ns and not what 0.3 happens to be in binary, and "p99.9" is the same double as
 * ".999".
 */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define FRACTION_DIGITS 18 /* further digits cannot change a time of any unit by a nanosecond */
#define QUOTE_BYTES     48
#define TIME_WANTED \
	"write a time as a number and a unit: 20us, 200ms, 1.5s, 2m (units are ns, us, ms, s, m, h)"

static const struct unit {
	const char *name;
	uint64_t ns;
	unsigned digits; /* the ns are 10 to this power; 0 also if they are no power of 10 */
} units[] = {
	{"ns", 1, 0},
	{"us", 1000, 3},
	{"ms", 1000000, 6},
	{"s", 1000000000, 9},
	{"m", UINT64_C(60000000000), 0},
	{"h", UINT64_C(3600000000000), 0},
	/* other spellings, never printed */
	{"min", UINT64_C(60000000000), 0},
	{"\302\265s", 1000, 3}, /* the micro sign */
	{"\316\274s", 1000, 3}, /* the Greek mu */
};
#define UNITS_PRINTED 6
#define UNITS         (sizeof(units) / sizeof(units[0]))

/* ---- shared by all readers ---- */

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_spaces(const char *text)
{
	while (is_space(*text))
		text++;
	return text;
}

static const char *begin(const char *text)
{
	return text != NULL ? skip_spaces(text) : "";
}

/* Only spaces follow. */
static bool ends(const char *text)
{
	return *skip_spaces(text) == '\0';
}

char *weir_text_quote(char *quoted, size_t size, const char *text)
{
	size_t at = 0;
	if (size == 0)
		return quoted;
	for (; text != NULL && text[at] != '\0' && at + 1 < size; at++)
		quoted[at] = (char)(text[at] >= ' ' && text[at] <= '~' ? text[at] : '?');
	quoted[at] = '\0';
	if (at >= 3 && text[at] != '\0')
		memcpy(quoted + at - 3, "...", 3);
	return quoted;
}

char *weir_text_trim(char *text)
{
	text += strspn(text, " \t");
	size_t length = strlen(text);
	while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
		text[--length] = '\0';
	return text;
}

static int wrong(const char *text, const char *wanted)
{
	char quoted[QUOTE_BYTES];
	text = begin(text);
	if (*text == '\0')
		return weir_error_set(-EINVAL, "there is no value; %s", wanted);
	return weir_error_set(-EINVAL, "'%s': %s", weir_text_quote(quoted, sizeof(quoted), text), wanted);
}

/* ---- decimals ---- */

/* 12.034 is whole 12, fraction 34 of 10^3. */
typedef struct decimal {
	uint64_t whole, fraction;
	unsigned digits; /* number of digits of the fraction that were kept */
	bool some;       /* not zero, though perhaps only in digits that were not kept */
	bool fits;
} decimal;

static const char *scan_whole(const char *text, decimal *d)
{
	for (; is_digit(*text); text++) {
		unsigned digit = (unsigned)(*text - '0');
		d->some |= digit != 0;
		if (__builtin_mul_overflow(d->whole, 10, &d->whole) ||
		    __builtin_add_overflow(d->whole, digit, &d->whole))
			d->fits = false;
	}
	return text;
}

static const char *scan_fraction(const char *text, decimal *d)
{
	for (; is_digit(*text); text++) {
		unsigned digit = (unsigned)(*text - '0');
		d->some |= digit != 0;
		if (d->digits == FRACTION_DIGITS)
			continue;
		d->fraction = d->fraction * 10 + digit;
		d->digits++;
	}
	return text;
}

/* Digits with at most one point among them; returns what follows, NULL if there is no digit. */
static const char *scan_decimal(const char *text, decimal *ret_decimal)
{
	decimal d = {.fits = true};
	const char *point = scan_whole(text, &d), *after = point;
	if (*point == '.')
		after = scan_fraction(point + 1, &d);
	*ret_decimal = d;
	return after - text > (*point == '.') ? after : NULL;
}

static uint64_t power_of_ten(unsigned exponent)
{
	uint64_t power = 1;
	while (exponent-- > 0)
		power *= 10;
	return power;
}

/* ---- times ---- */

/* The unit, if only a unit and spaces are left; NULL otherwise. */
static const struct unit *scan_unit(const char *text)
{
	text = skip_spaces(text);
	for (size_t i = 0; i < UNITS; i++) {
		size_t length = strlen(units[i].name);
		if (strncmp(text, units[i].name, length) == 0 && ends(text + length))
			return &units[i];
	}
	return NULL;
}

static int scale_time(const char *text, const decimal *d, uint64_t unit_ns, uint64_t *ret_ns)
{
	uint64_t ten = power_of_ten(d->digits);
	unsigned __int128 part = ((unsigned __int128)d->fraction * unit_ns + ten / 2) / ten;
	unsigned __int128 ns = (unsigned __int128)d->whole * unit_ns + part;
	if (!d->fits || ns > UINT64_MAX)
		return wrong(text, "this time is too long; at most 5000000h");
	if (ns == 0 && d->some)
		return wrong(text, "this time is too short; at least 1ns, or 0s for none");
	*ret_ns = (uint64_t)ns;
	return 0;
}

int weir_text_time(const char *text, uint64_t *ret_ns)
{
	decimal d;
	const char *after = scan_decimal(begin(text), &d);
	if (after == NULL)
		return wrong(text, TIME_WANTED);
	if (ends(after))
		return wrong(text, "the unit is missing; " TIME_WANTED);
	const struct unit *unit = scan_unit(after);
	if (unit == NULL)
		return wrong(text, TIME_WANTED);
	return scale_time(text, &d, unit->ns, ret_ns);
}

const char *weir_text_time_unit(const char *text)
{
	decimal d;
	const char *after = scan_decimal(begin(text), &d);
	const struct unit *unit = after != NULL ? scan_unit(after) : NULL;
	return unit != NULL ? unit->name : "";
}

/* Digits after the point that the time needs in this unit; UINT32_MAX: it has no exact representation. */
static unsigned decimals_needed(uint64_t ns, const struct unit *unit)
{
	unsigned needed = unit->digits;
	uint64_t rest = ns % unit->ns;
	if (rest != 0 && power_of_ten(unit->digits) != unit->ns)
		return UINT32_MAX;
	for (; needed > 0 && rest % 10 == 0; needed--)
		rest /= 10;
	return needed;
}

/* The named unit, if it is exact; otherwise the largest of those that need the fewest digits. */
static const struct unit *unit_for(uint64_t ns, const char *name)
{
	const struct unit *best = &units[0];
	for (size_t i = 0; i < UNITS_PRINTED; i++) {
		unsigned needed = decimals_needed(ns, &units[i]);
		if (name != NULL && strcmp(units[i].name, name) == 0 && needed != UINT32_MAX)
			return &units[i];
		if (needed == 0 && (ns != 0 || units[i].digits == 9))
			best = &units[i];
	}
	return best;
}

char *weir_text_print_time(char *text, size_t size, uint64_t ns, const char *unit_name)
{
	const struct unit *unit = unit_for(ns, unit_name);
	unsigned decimals = decimals_needed(ns, unit);
	uint64_t whole = ns / unit->ns, rest = ns % unit->ns / power_of_ten(unit->digits - decimals);
	if (decimals == 0)
		snprintf(text, size, "%llu%s", (unsigned long long)whole, unit->name);
	else
		snprintf(text, size, "%llu.%0*llu%s", (unsigned long long)whole, (int)decimals,
			 (unsigned long long)rest, unit->name);
	return text;
}

/* ---- sizes ---- */

#define SIZE_WANTED \
	"write a size as a number and a unit: 512, 64KB, 1.5MB, 2GB (units are B, KB, MB, GB, TB, of 1024)"

static const char size_letters[] = "BKMGT"; /* each is 1024 times the one before */

static bool same_letter(char a, char upper)
{
	return a == upper || (upper != '\0' && a == upper + ('a' - 'A'));
}

/* Bytes of the unit, if only a unit and spaces are left: "", "B", "K", "KB", "KiB"; 0 otherwise. */
static uint64_t scan_size_unit(const char *text)
{
	text = skip_spaces(text);
	for (unsigned i = 0; size_letters[i] != '\0'; i++) {
		if (!same_letter(*text, size_letters[i]))
			continue;
		const char *rest = text + 1;
		if (i > 0 && same_letter(rest[0], 'I') && same_letter(rest[1], 'B'))
			rest++;
		if (i > 0 && same_letter(*rest, 'B'))
			rest++;
		return ends(rest) ? UINT64_C(1) << (10 * i) : 0;
	}
	return *text == '\0';
}

int weir_text_size(const char *text, uint64_t *ret_bytes)
{
	decimal d;
	const char *after = scan_decimal(begin(text), &d);
	uint64_t unit = after != NULL ? scan_size_unit(after) : 0;
	if (unit == 0)
		return wrong(text, SIZE_WANTED);
	uint64_t ten = power_of_ten(d.digits);
	unsigned __int128 part = ((unsigned __int128)d.fraction * unit + ten / 2) / ten;
	unsigned __int128 bytes = (unsigned __int128)d.whole * unit + part;
	if (!d.fits || bytes > UINT64_MAX)
		return wrong(text, "this size is too large; at most 16777215TB");
	if (bytes == 0 && d.some)
		return wrong(text, "this size is too small; at least 1B, or 0 for none");
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

char *weir_text_print_size(char *text, size_t size, uint64_t bytes)
{
	unsigned i = 0;
	while (bytes != 0 && bytes % 1024 == 0 && size_letters[i + 1] != '\0') {
		bytes /= 1024;
		i++;
	}
	snprintf(text, size, "%llu%.1s%s", (unsigned long long)bytes, size_letters + i, i > 0 ? "B" : "");
	return text;
}

/* ---- numbers ---- */

/* What strtod would accept, except hexadecimals, infinities and NaN. */
static bool is_number(const char *text)
{
	decimal ignored;
	if (*text == '-' || *text == '+')
		text++;
	text = scan_decimal(text, &ignored);
	if (text == NULL)
		return false;
	if (*text == 'e' || *text == 'E') {
		text += text[1] == '-' || text[1] == '+' ? 2 : 1;
		if (!is_digit(*text))
			return false;
		while (is_digit(*text))
			text++;
	}
	return ends(text);
}

int weir_text_number(const char *text, double *ret_number)
{
	if (!is_number(begin(text)))
		return wrong(text, "write a number as 12, 0.5 or 1e6");
	/* The program's own locale may use a decimal comma. */
	locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (plain == (locale_t)0)
		return weir_error_set(-ENOMEM, "out of memory");
	double number = strtod_l(begin(text), NULL, plain);
	freelocale(plain);
	if (number - number != 0)
		return wrong(text, "this number is too large");
	*ret_number = number;
	return 0;
}

int weir_text_count(const char *text, uint32_t *ret_count)
{
	decimal d = {.fits = true};
	const char *digits = begin(text), *after = scan_whole(digits, &d);
	if (after == digits || !ends(after))
		return wrong(text, "write a whole number, as 12");
	if (!d.fits || d.whole > UINT32_MAX)
		return wrong(text, "this number is too large; at most 4294967295");
	*ret_count = (uint32_t)d.whole;
	return 0;
}

/* ---- percentiles, switches ---- */

#define PERCENTILE_WANTED "write a percentile between 0 and 100 as p90, 99.9% or .999"

/* One division of two exact numbers, so that all spellings give the same double. 0: not between 0 and 1. */
static double fraction_of(const decimal *d, bool percent)
{
	unsigned exponent = d->digits + (percent ? 2 : 0);
	if (!d->fits || d->whole >= 100 || d->digits > 12)
		return 0;
	double digits = (double)(d->whole * power_of_ten(d->digits) + d->fraction);
	double fraction = digits / (double)power_of_ten(exponent);
	return fraction < 1 ? fraction : 0;
}

int weir_text_percentile(const char *text, double *ret_fraction)
{
	decimal d;
	const char *start = begin(text);
	bool percent = *start == 'p' || *start == 'P';
	const char *after = scan_decimal(start + percent, &d);
	if (after == NULL)
		return wrong(text, PERCENTILE_WANTED);
	if (!percent && *skip_spaces(after) == '%') {
		percent = true;
		after = skip_spaces(after) + 1;
	}
	double fraction = fraction_of(&d, percent);
	if (!ends(after) || fraction == 0)
		return wrong(text, PERCENTILE_WANTED);
	*ret_fraction = fraction;
	return 0;
}

char *weir_text_print_percentile(char *text, size_t size, double fraction)
{
	snprintf(text, size, "p%.10g", fraction * 100);
	return text;
}

int weir_text_switch(const char *text, bool *ret_on)
{
	static const char *const words[] = {"off", "on", "no", "yes", "false", "true"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t length = strlen(words[i]);
		if (strncmp(begin(text), words[i], length) == 0 && ends(begin(text) + length)) {
			*ret_on = i % 2 != 0;
			return 0;
		}
	}
	return wrong(text, "write on or off");
}
