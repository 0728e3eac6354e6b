/* SPDX-License-Identifier: Apache-2.0 */
/* Dates of RFC 9110 5.6.7, without the C library: no locale, no time zone, no locks. */

#include <string.h>

#include "http/parse.h"

static const char days[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
				 "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
				   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

#define DAY_S  86400
#define YEAR_S 31556952LL     /* on average */
#define LAST_S 253402300799LL /* the end of the year 9999 */

typedef struct date {
	unsigned weekday, day, month, year, hour, minute, second; /* weekday and month from 0, day from 1 */
} date;

/* Days from 1970-01-01, proleptic Gregorian. Years start in March, so that the leap day is the last. */
static int64_t days_of(unsigned year, unsigned month, unsigned day)
{
	int64_t y = (int64_t)year - (month < 2);
	int64_t era = y / 400, of_era = y % 400;
	int64_t of_year = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* The inverse of days_of. */
static void date_of(int64_t number, date *ret_date)
{
	int64_t shifted = number + 719468;
	int64_t era = shifted / 146097, of_era = shifted % 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t march = (5 * of_year + 2) / 153;
	ret_date->day = (unsigned)(of_year - (153 * march + 2) / 5 + 1);
	ret_date->month = (unsigned)((march + 2) % 12);
	ret_date->year = (unsigned)(year + era * 400 + (ret_date->month < 2));
}

static bool date_valid(const date *at)
{
	static const uint8_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = at->year % 4 == 0 && (at->year % 100 != 0 || at->year % 400 == 0);
	unsigned length = lengths[at->month] + (unsigned)(leap && at->month == 1);
	/* A leap second counts as the first of the next minute. */
	return at->day >= 1 && at->day <= length && at->hour < 24 && at->minute < 60 && at->second <= 60 &&
	       at->year >= 1;
}

static int64_t seconds_of(const date *at)
{
	return days_of(at->year, at->month, at->day) * DAY_S + at->hour * 3600 + at->minute * 60 + at->second;
}

/* ---- parsing: each function consumes its part of the text, or returns false ---- */

static bool take_text(weir_span *text, const char *word)
{
	size_t length = strlen(word);
	if (text->length < length || memcmp(text->at, word, length) != 0)
		return false;
	text->at += length, text->length -= length;
	return true;
}

static bool take_number(weir_span *text, unsigned digits, unsigned *ret_number)
{
	unsigned number = 0;
	if (text->length < digits)
		return false;
	for (unsigned i = 0; i < digits; i++) {
		unsigned digit = (unsigned)(uint8_t)text->at[i] - '0';
		if (digit > 9)
			return false;
		number = number * 10 + digit;
	}
	text->at += digits, text->length -= digits;
	*ret_number = number;
	return true;
}

static bool take_month(weir_span *text, unsigned *ret_month)
{
	for (unsigned i = 0; i < 12; i++)
		if (take_text(text, months[i])) {
			*ret_month = i;
			return true;
		}
	return false;
}

static bool take_time(weir_span *text, date *at)
{
	return take_number(text, 2, &at->hour) && take_text(text, ":") && take_number(text, 2, &at->minute) &&
	       take_text(text, ":") && take_number(text, 2, &at->second);
}

/* The rest of "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool take_fixdate(weir_span *text, date *at)
{
	return take_text(text, ", ") && take_number(text, 2, &at->day) && take_text(text, " ") &&
	       take_month(text, &at->month) && take_text(text, " ") && take_number(text, 4, &at->year) &&
	       take_text(text, " ") && take_time(text, at) && take_text(text, " GMT");
}

/* The rest of "Sunday, 06-Nov-94 08:49:37 GMT", year without century. */
static bool take_rfc850(weir_span *text, date *at)
{
	return take_text(text, ", ") && take_number(text, 2, &at->day) && take_text(text, "-") &&
	       take_month(text, &at->month) && take_text(text, "-") && take_number(text, 2, &at->year) &&
	       take_text(text, " ") && take_time(text, at) && take_text(text, " GMT");
}

/* The rest of "Sun Nov  6 08:49:37 1994" */
static bool take_asctime(weir_span *text, date *at)
{
	if (!take_text(text, " ") || !take_month(text, &at->month) || !take_text(text, " "))
		return false;
	bool day = take_text(text, " ") ? take_number(text, 1, &at->day) : take_number(text, 2, &at->day);
	return day && take_text(text, " ") && take_time(text, at) && take_text(text, " ") &&
	       take_number(text, 4, &at->year);
}

static int64_t bounded(int64_t seconds)
{
	return seconds < 0 ? 0 : seconds > LAST_S ? LAST_S : seconds;
}

/* A year more than 50 years ahead is the latest past year with these two digits (RFC 9110 5.6.7). */
static void choose_century(date *at, int64_t now_s)
{
	date now;
	date_of(bounded(now_s) / DAY_S, &now);
	at->year += now.year / 100 * 100 + 100;
	while (at->year >= 2000 && seconds_of(at) > bounded(now_s) + 50 * YEAR_S)
		at->year -= 100;
}

static bool take_date(weir_span *text, int64_t now_s, date *at)
{
	for (unsigned i = 0; i < 7; i++) {
		char brief[4] = {days[i][0], days[i][1], days[i][2], '\0'};
		at->weekday = i;
		if (take_text(text, days[i])) {
			if (!take_rfc850(text, at))
				return false;
			choose_century(at, now_s);
			return true;
		}
		if (take_text(text, brief))
			return text->length > 0 && *text->at == ',' ? take_fixdate(text, at)
								    : take_asctime(text, at);
	}
	return false;
}

/* Times before 1970 give -1: no file or cache is that old. */
int64_t weir_date_parse(weir_span text, int64_t now_s)
{
	date at = {0};
	if (!take_date(&text, now_s, &at) || text.length != 0 || !date_valid(&at))
		return -1;
	int64_t seconds = seconds_of(&at);
	return seconds >= 0 ? seconds : -1;
}

/* ---- printing ---- */

static char *put_number(char *to, unsigned number, unsigned digits)
{
	for (unsigned i = digits; i-- > 0; number /= 10)
		to[i] = (char)('0' + number % 10);
	return to + digits;
}

static char *put_text(char *to, const char *text, size_t length)
{
	memcpy(to, text, length);
	return to + length;
}

void weir_date_print(char *text, int64_t seconds)
{
	date at;
	int64_t day = bounded(seconds) / DAY_S;
	unsigned second = (unsigned)(bounded(seconds) % DAY_S);
	date_of(day, &at);
	text = put_text(text, days[(day + 4) % 7], 3);
	text = put_number(put_text(text, ", ", 2), at.day, 2);
	text = put_text(put_text(text, " ", 1), months[at.month], 3);
	text = put_number(put_text(text, " ", 1), at.year, 4);
	text = put_number(put_text(text, " ", 1), second / 3600, 2);
	text = put_number(put_text(text, ":", 1), second / 60 % 60, 2);
	text = put_number(put_text(text, ":", 1), second % 60, 2);
	put_text(text, " GMT", 5);
}
