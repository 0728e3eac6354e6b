/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a form with files: the first line is its Content-Type, the rest its body. What is found lies
 * within the body, in its order, and no value contains the mark that ends it.
 */
#include <string.h>
#include <weir/upload.h>

#include "target.h"

static void check_within(weir_span part, weir_span whole)
{
	if (part.at != NULL)
		CHECK(part.at >= whole.at && part.at + part.length <= whole.at + whole.length);
}

static void check_fields(const weir_upload *u, weir_span body, weir_span boundary)
{
	char mark[128] = "\r\n--";
	const char *last = body.at;
	memcpy(mark + 4, boundary.at, boundary.length);
	for (size_t i = 0; i < u->count; i++) {
		const weir_upload_field *field = &u->fields[i];
		check_within(field->name, body);
		check_within(field->file, body);
		check_within(field->type, body);
		check_within(field->value, body);
		CHECK(field->name.length > 0 && field->value.at >= last);
		CHECK(field->value.length == 0 ||
		      memmem(field->value.at, field->value.length, mark, boundary.length + 4) == NULL);
		last = field->value.at + field->value.length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static weir_upload u;
	const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
	if (end == NULL)
		return 0;
	weir_span type = {(const char *)data, (size_t)(end - data)},
		  body = {(const char *)end + 1, size - type.length - 1},
		  boundary = weir_upload_boundary(type);
	check_within(boundary, type);
	if (weir_upload_parse(body, boundary, &u) == 0)
		check_fields(&u, body, boundary);
	else
		check_sentence();
	weir_upload_value(&u, "to");
	return 0;
}
