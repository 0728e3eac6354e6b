/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_HTTP_GRPC_H
#define WEIR_HTTP_GRPC_H

/*
 * What a server and a proxy must know of gRPC (gRPC over HTTP2, in the documents of that project). An exchange
 * of gRPC is a POST with a content-type that begins with application/grpc. Its outcome is not the status of
 * HTTP but the field grpc-status, in the trailers or, if there is no body, in the head ("trailers only").
 *
 * Threads: any; functions with a request: its own.
 */

#include "http/request.h"

enum weir_grpc_code {
	WEIR_GRPC_OK = 0,
	WEIR_GRPC_DEADLINE_EXCEEDED = 4,
	WEIR_GRPC_RESOURCE_EXHAUSTED = 8,
	WEIR_GRPC_UNAVAILABLE = 14,
};

/* Whether a content-type is one of gRPC: application/grpc, perhaps with +proto, -web or parameters. */
bool weir_grpc_is_type(weir_span type);
/* Whether the request is one of gRPC, over HTTP/2. */
bool weir_grpc_is(const weir_request *request);
/* The time that a value of grpc-timeout stands for, as "250m" for 250 ms, at most a day; 0: it is none. */
uint64_t weir_grpc_timeout(weir_span text);
/* Sets the deadline of a request of gRPC by its grpc-timeout, unless it has an earlier one. */
void weir_grpc_set_deadline(weir_request *request);
/* The value of grpc-status among these fields; -1: there is none, or it is no number up to 999. */
int weir_grpc_status(const weir_head_field *fields, size_t count, const char *bytes);
/* Whether a code means that the server had too much to do: RESOURCE_EXHAUSTED or UNAVAILABLE. */
bool weir_grpc_is_refusal(int code);
/* The status of HTTP with about the same meaning for a law: 200, 400, 429, 500 or 503. */
unsigned weir_grpc_as_http(int code);

/* An answer to a request of gRPC that has no other. Texts need not outlive the call. */
typedef struct weir_grpc_answer {
	unsigned code;
	weir_span message;       /* printable ASCII */
	uint64_t retry_after_ns; /* when to try again (grpc-retry-pushback-ms); 0: not said */
	weir_span shed;          /* the value of Weir-Shed; empty: not sent */
} weir_grpc_answer;

/* Answers with status 200 and grpc-status, trailers only. The request has been settled. */
void weir_grpc_reply(weir_request *request, const weir_grpc_answer *answer);

#endif
