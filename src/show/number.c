/* SPDX-License-Identifier: Apache-2.0 */
#include "show/number.h"

#include <math.h>
#include <stdio.h>

/* The limits are where a number would be rounded up to one more digit. */
static const char *three_digits(double value, const char *unit, char *text)
{
	snprintf(text, WEIR_NUMBER, "%.*f%s",
		 value < 9.995   ? 2
		 : value < 99.95 ? 1
				 : 0,
		 fmin(value, 1e18), unit);
	return text;
}

const char *weir_number_time(double ms, char *text)
{
	if (isinf(ms))
		return "never";
	if (!(ms > 0))
		snprintf(text, WEIR_NUMBER, "0");
	else if (ms < 0.9995)
		snprintf(text, WEIR_NUMBER, "%.0fus", ms * 1e3);
	else if (ms < 999.5)
		return three_digits(ms, "ms", text);
	else
		return three_digits(ms / 1e3, "s", text);
	return text;
}

const char *weir_number_share(double share, char *text)
{
	snprintf(text, WEIR_NUMBER, share != 0 && share < 0.01 ? "%.2f%%" : "%.1f%%",
		 100 * fmin(share, 1e12));
	return text;
}

const char *weir_number_rate(double per_s, char *text)
{
	snprintf(text, WEIR_NUMBER, per_s < 100 ? "%.2f" : per_s < 1e4 ? "%.1f" : "%.0f", fmin(per_s, 1e21));
	return text;
}
