/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h1_text.h"

#include <errno.h>

#include "base/mem.h"

#define ROOM 4096u

/* ---- fields ---- */

char *weir_h1_put_fields(char *to, const weir_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		to = weir_h1_put(to, fields[i].name.at, fields[i].name.length);
		to = WEIR_H1_PUT(to, ": ");
		if (fields[i].value.length > 0)
			to = weir_h1_put(to, fields[i].value.at, fields[i].value.length);
		to = WEIR_H1_PUT(to, "\r\n");
	}
	return to;
}

size_t weir_h1_fields_bytes(const weir_field *fields, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += fields[i].name.length + fields[i].value.length + 4;
	return bytes;
}

/* ---- bodies ---- */

int weir_h1_send_part(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	if (length <= WEIR_H1_COPY_MOST)
		return weir_link_write(link, buf->data + offset, length);
	return weir_link_send(link, buf, offset, length);
}

static char *put_size(char *to, size_t length)
{
	char digits[16];
	char *at = digits + sizeof(digits);
	do
		*--at = "0123456789abcdef"[length & 15];
	while ((length >>= 4) != 0);
	return WEIR_H1_PUT(weir_h1_put(to, at, (size_t)(digits + sizeof(digits) - at)), "\r\n");
}

/* By buf, or by bytes if that is NULL. */
static int large_chunk(weir_link *link, weir_buf *buf, size_t offset, const void *bytes, size_t length)
{
	char size[WEIR_H1_CHUNK_EXTRA];
	int error = weir_link_write(link, size, (size_t)(put_size(size, length) - size));
	if (error == 0)
		error = buf != NULL ? weir_link_send(link, buf, offset, length)
				    : weir_link_write(link, bytes, length);
	return error != 0 ? error : weir_link_write(link, "\r\n", 2);
}

int weir_h1_write_chunk(weir_link *link, const void *bytes, size_t length)
{
	char room[WEIR_H1_COPY_MOST + WEIR_H1_CHUNK_EXTRA];
	if (length > WEIR_H1_COPY_MOST)
		return large_chunk(link, NULL, 0, bytes, length);
	char *end = weir_h1_put(put_size(room, length), bytes, length);
	end = WEIR_H1_PUT(end, "\r\n");
	return weir_link_write(link, room, (size_t)(end - room));
}

int weir_h1_send_chunk(weir_link *link, weir_buf *buf, size_t offset, size_t length)
{
	if (length <= WEIR_H1_COPY_MOST)
		return weir_h1_write_chunk(link, buf->data + offset, length);
	return large_chunk(link, buf, offset, NULL, length);
}

int weir_h1_end_chunks(weir_link *link, const weir_field *trailers, size_t count, size_t most)
{
	char room[ROOM];
	size_t need = sizeof("0\r\n\r\n") + weir_h1_fields_bytes(trailers, count);
	bool fit = need <= most;
	if (!fit)
		need = sizeof("0\r\n\r\n");
	char *text = need <= sizeof(room) ? room : weir_mem_zalloc(need);
	if (text == NULL)
		return -ENOMEM;
	char *end = WEIR_H1_PUT(text, "0\r\n");
	if (fit)
		end = weir_h1_put_fields(end, trailers, count);
	end = WEIR_H1_PUT(end, "\r\n");
	int error = weir_link_write(link, text, (size_t)(end - text));
	if (text != room)
		weir_mem_free(text);
	return error;
}
