/* SPDX-License-Identifier: Apache-2.0 */
#include "http/grpc.h"

#include <string.h>

#include "http/digits.h"
#include "http/server.h"

#define TYPE         "application/grpc"
#define CODE_MOST    999
#define RETRY_MOST   (86400 * WEIR_NS_PER_S)
#define TIMEOUT_MOST (86400 * WEIR_NS_PER_S)

bool weir_grpc_is_type(weir_span type)
{
	const size_t length = sizeof(TYPE) - 1;
	if (type.length < length || !weir_span_is((weir_span){type.at, length}, WEIR_SPAN(TYPE)))
		return false;
	return type.length == length || strchr("+-; \t", type.at[length]) != NULL;
}

bool weir_grpc_is(const weir_request *request)
{
	if (request->head.method != WEIR_METHOD_POST || request->head.version != 20)
		return false;
	for (size_t i = 0; i < request->head.field_count; i++) {
		const weir_head_field *field = &request->fields[i];
		if (field->id == WEIR_FIELD_CONTENT_TYPE)
			return weir_grpc_is_type(
				(weir_span){request->base + field->value, field->value_length});
	}
	return false;
}

/* One to eight digits, and a unit. With nothing left it is still a deadline. */
uint64_t weir_grpc_timeout(weir_span text)
{
	static const char units[] = "HMSmun";
	static const uint64_t unit_ns[] = {3600 * WEIR_NS_PER_S, 60 * WEIR_NS_PER_S, WEIR_NS_PER_S,
					   WEIR_NS_PER_MS,       WEIR_NS_PER_US,     1};
	uint64_t number = 0;
	if (text.length < 2 || text.length > 9)
		return 0;
	const char *unit = memchr(units, text.at[text.length - 1], sizeof(units) - 1);
	for (size_t i = 0; i < text.length - 1; i++) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return 0;
		number = number * 10 + (uint64_t)(text.at[i] - '0');
	}
	if (unit == NULL)
		return 0;
	uint64_t each_ns = unit_ns[unit - units];
	if (number == 0)
		return 1;
	return number < TIMEOUT_MOST / each_ns ? number * each_ns : TIMEOUT_MOST;
}

void weir_grpc_set_deadline(weir_request *request)
{
	uint64_t left_ns = 0;
	if (weir_grpc_is(request))
		left_ns = weir_grpc_timeout(weir_request_header(request, WEIR_SPAN("grpc-timeout")));
	uint64_t until_ns = request->began_ns + left_ns;
	if (left_ns != 0 && (request->event.deadline_ns == 0 || until_ns < request->event.deadline_ns))
		request->event.deadline_ns = until_ns;
}

static int read_code(const char *text, size_t length)
{
	int code = 0;
	if (length == 0)
		return -1;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		code = code * 10 + (text[i] - '0');
		if (code > CODE_MOST)
			return -1;
	}
	return code;
}

int weir_grpc_status(const weir_head_field *fields, size_t count, const char *bytes)
{
	for (size_t i = 0; i < count; i++) {
		const weir_head_field *field = &fields[i];
		if (field->id == WEIR_FIELD_OTHER && field->name_length == 11 &&
		    weir_span_is((weir_span){bytes + field->name, 11}, WEIR_SPAN("grpc-status")))
			return read_code(bytes + field->value, field->value_length);
	}
	return -1;
}

bool weir_grpc_is_refusal(int code)
{
	return code == WEIR_GRPC_RESOURCE_EXHAUSTED || code == WEIR_GRPC_UNAVAILABLE;
}

unsigned weir_grpc_as_http(int code)
{
	switch (code) {
	case -1: /* it is still to come */
	case WEIR_GRPC_OK:
		return 200;
	case WEIR_GRPC_RESOURCE_EXHAUSTED:
		return 429;
	case WEIR_GRPC_UNAVAILABLE:
		return 503;
	case 2:  /* UNKNOWN */
	case 4:  /* DEADLINE_EXCEEDED */
	case 13: /* INTERNAL */
	case 15: /* DATA_LOSS */
		return 500;
	default:
		return 400;
	}
}

void weir_grpc_reply(weir_request *request, const weir_grpc_answer *answer)
{
	char code[24], wait[24];
	weir_field fields[5] = {
		{WEIR_SPAN("content-type"), WEIR_SPAN(TYPE)},
		{WEIR_SPAN("grpc-status"), {code, (size_t)(weir_put_number(code, answer->code) - code)}},
		{WEIR_SPAN("grpc-message"), answer->message}};
	size_t count = 3;
	if (answer->retry_after_ns != 0) {
		uint64_t ns = answer->retry_after_ns < RETRY_MOST ? answer->retry_after_ns : RETRY_MOST;
		char *end = weir_put_number(wait, (ns + WEIR_NS_PER_MS - 1) / WEIR_NS_PER_MS);
		fields[count++] =
			(weir_field){WEIR_SPAN("grpc-retry-pushback-ms"), {wait, (size_t)(end - wait)}};
	}
	if (answer->shed.length > 0)
		fields[count++] = (weir_field){WEIR_SPAN("Weir-Shed"), answer->shed};
	weir_request_answer(request, &(weir_reply){.status = 200, .fields = fields, .field_count = count});
}
