/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

void weir_line_cut_comment(char *text)
{
	for (char *at = text; *at != '\0'; at++)
		if (*at == '#' && (at == text || at[-1] == ' ' || at[-1] == '\t')) {
			*at = '\0';
			return;
		}
}

/* The length of the UTF-8 character at the beginning; 0: there is none, or it is an overlong encoding. */
static size_t utf8_length(const unsigned char *at, size_t size)
{
	static const unsigned char least[] = {0, 0, 0xc2, 0xe0, 0xf0}, most[] = {0, 0, 0xdf, 0xef, 0xf4};
	if (at[0] < 0x80)
		return 1;
	size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	if (at[0] < least[length] || at[0] > most[length] || size < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	bool surrogate = at[0] == 0xed && at[1] >= 0xa0;
	bool beyond = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
		      (at[0] == 0xf4 && at[1] >= 0x90);
	return surrogate || beyond ? 0 : length;
}

static bool is_text(const char *from, size_t length)
{
	const unsigned char *at = (const unsigned char *)from;
	for (size_t i = 0, step; i < length; i += step) {
		step = utf8_length(at + i, length - i);
		if (step == 0 || (at[i] < ' ' && at[i] != '\t') || at[i] == 0x7f)
			return false;
	}
	return true;
}

int weir_line_copy(const char *from, size_t length, char *to, size_t room)
{
	if (length > 0 && from[length - 1] == '\r')
		length--;
	if (length >= room)
		return weir_error_set(-EINVAL, "a line of at most %zu characters is accepted", room - 1);
	if (!is_text(from, length))
		return weir_error_set(-EINVAL, "this is not text; accepted is UTF-8");
	memcpy(to, from, length);
	to[length] = '\0';
	return 0;
}
