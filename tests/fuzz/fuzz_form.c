/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a form, behind a byte of flags. It is read into memory of just the size that is promised to
 * do, and where it is: both say the same. Every name and value is within that memory, in order, and has its
 * NUL behind it; without the flag there is none inside.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weir/form.h>

#include "target.h"

typedef struct reading {
	char *to;
	size_t size;
	weir_form_reader form;
	const char *at; /* where the last one ended */
} reading;

static void start(reading *r, const uint8_t *text, size_t length, unsigned flags, bool in_place)
{
	r->size = length + 1;
	r->to = malloc(r->size);
	CHECK(r->to != NULL);
	r->at = r->to;
	if (in_place && length > 0)
		memcpy(r->to, text, length);
	weir_span from = {in_place ? r->to : (const char *)text, length};
	CHECK(weir_form_begin(&r->form, from, flags, r->to, length) == -ENOBUFS);
	CHECK(weir_form_begin(&r->form, from, flags, r->to, r->size) == 0);
}

static void check_span(reading *r, weir_span span, unsigned flags)
{
	CHECK(span.at >= r->at && span.length < r->size);
	CHECK(span.at + span.length < r->to + r->size);
	CHECK(span.at[span.length] == '\0');
	if (!(flags & WEIR_DECODE_NUL))
		CHECK(memchr(span.at, 0, span.length) == NULL);
	r->at = span.at + span.length;
}

static bool same(weir_span a, weir_span b)
{
	return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

/* A value that is alone is decoded as it is in a form. */
static void check_alone(const uint8_t *text, size_t length, unsigned flags)
{
	size_t decoded = 0, again = 0;
	char *to = malloc(length + 1), *place = malloc(length + 1);
	CHECK(to != NULL && place != NULL);
	memcpy(place, text, length);
	int error =
		weir_percent_decode((weir_span){(const char *)text, length}, flags, to, length + 1, &decoded);
	CHECK(error == 0 || error == -EILSEQ);
	CHECK(weir_percent_decode((weir_span){place, length}, flags, place, length + 1, &again) == error);
	CHECK(decoded <= length && decoded == again && memcmp(to, place, decoded) == 0);
	if (error == 0 && decoded > 0)
		CHECK(weir_percent_decode((weir_span){(const char *)text, length}, flags, to, decoded,
					  &again) == -ENOBUFS);
	free(place);
	free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	unsigned flags = data[0] & 7, pairs = 0;
	const uint8_t *text = data + 1;
	reading elsewhere, place;
	start(&elsewhere, text, size - 1, flags, false);
	start(&place, text, size - 1, flags, true);
	weir_field one, other;
	int result;
	while ((result = weir_form_next(&elsewhere.form, &one)) == 1) {
		CHECK(weir_form_next(&place.form, &other) == 1);
		check_span(&elsewhere, one.name, flags);
		check_span(&elsewhere, one.value, flags);
		check_span(&place, other.name, flags);
		check_span(&place, other.value, flags);
		CHECK(same(one.name, other.name) && same(one.value, other.value));
		CHECK(++pairs <= WEIR_FORM_PAIRS_MAX);
	}
	CHECK(result == 0 || result == -EILSEQ || result == -E2BIG);
	CHECK(weir_form_next(&place.form, &other) == result);
	CHECK(weir_form_next(&place.form, &other) == 0);
	check_alone(text, size - 1, flags);
	free(elsewhere.to);
	free(place.to);
	return 0;
}
