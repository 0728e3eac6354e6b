/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding, RFC 9112 7.1:
 *
 *	SIZE → [EXTENSION] → SIZE_LF → DATA → DATA_CR → DATA_LF → SIZE
 *	                          └ size 0: OVER
 *
 * Size lines are short and read byte by byte; data is not read at all.
 */

#include "http/digits.h"
#include "http/parse.h"

#define DIGITS_MAX    16
#define EXTENSION_MAX 256

enum state {
	SIZE,
	EXTENSION,
	SIZE_LF,
	DATA,
	DATA_CR,
	DATA_LF,
	OVER,
	BAD,
};

static bool refuse(weir_chunks *chunks, const char *error)
{
	chunks->state = BAD;
	chunks->error = error;
	return false;
}

static bool take_size_byte(weir_chunks *chunks, char c)
{
	int digit = weir_hex_digit(c);
	if (digit >= 0) {
		if (++chunks->line_seen > DIGITS_MAX)
			return refuse(chunks, "a chunk size of too many digits");
		chunks->left = chunks->left << 4 | (unsigned)digit;
		/* At most INT64_MAX, for peers that read it as a signed number. */
		return chunks->left <= INT64_MAX || refuse(chunks, "a chunk size that is too large");
	}
	if (chunks->line_seen == 0 || (c != '\r' && c != ';'))
		return refuse(chunks, "a chunk size that is no number");
	chunks->state = c == ';' ? EXTENSION : SIZE_LF;
	chunks->line_seen = 0;
	return true;
}

static bool take_extension_byte(weir_chunks *chunks, char c)
{
	if (c == '\r') {
		chunks->state = SIZE_LF;
		return true;
	}
	if ((uint8_t)c < ' ' || c == 0x7f)
		return refuse(chunks, "a control byte in a chunk extension");
	if (++chunks->line_seen > EXTENSION_MAX)
		return refuse(chunks, "a chunk extension that is too long");
	return true;
}

static bool take_line_byte(weir_chunks *chunks, char c)
{
	switch (chunks->state) {
	case SIZE:
		return take_size_byte(chunks, c);
	case EXTENSION:
		return take_extension_byte(chunks, c);
	case SIZE_LF:
		if (c != '\n')
			return refuse(chunks, "CR without LF after a chunk size");
		chunks->state = chunks->left != 0 ? DATA : OVER;
		return true;
	case DATA_CR:
		if (c != '\r')
			return refuse(chunks, "no CR after a chunk");
		chunks->state = DATA_LF;
		return true;
	default:
		if (c != '\n')
			return refuse(chunks, "CR without LF after a chunk");
		chunks->state = SIZE;
		chunks->line_seen = 0;
		return true;
	}
}

weir_parse weir_chunks_take(weir_chunks *chunks, const char *bytes, size_t length, size_t *ret_used,
			    size_t *ret_data, size_t *ret_data_length)
{
	size_t at = 0, data = 0;
	while (at < length && chunks->state < OVER && chunks->state != DATA)
		if (take_line_byte(chunks, bytes[at]))
			at++;
	if (chunks->state == BAD)
		return WEIR_PARSE_BAD;
	*ret_data = at;
	if (chunks->state == DATA) {
		data = length - at < chunks->left ? length - at : (size_t)chunks->left;
		chunks->left -= data;
		if (chunks->left == 0)
			chunks->state = DATA_CR;
	}
	*ret_data_length = data;
	*ret_used = at + data;
	return chunks->state == OVER ? WEIR_PARSE_DONE : WEIR_PARSE_MORE;
}
