/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/dns.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "keys/address.h"

#define ANSWER_BYTES  8192
#define TIMEOUT_S     2
#define TRIES         2
#define TARGETS_MOST  64 /* of a service, that are looked at */
#define SRV_FIXED     6  /* bytes of priority, weight and port */
#define HOST_BYTES    NS_MAXDNAME
#define NAME_SERVICES 53

bool weir_dns_read_server(const char *text, struct sockaddr_in *ret_server)
{
	char host[INET_ADDRSTRLEN + 1];
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(NAME_SERVICES)};
	uint16_t port;
	if (inet_pton(AF_INET, text, &server.sin_addr) == 1) {
		*ret_server = server;
		return true;
	}
	if (!weir_address_split(text, host, sizeof(host), &port) || port == 0 ||
	    inet_pton(AF_INET, host, &server.sin_addr) != 1)
		return false;
	server.sin_port = htons(port);
	*ret_server = server;
	return true;
}

/* ---- one question ---- */

static int begin(const char *server, struct __res_state *ret_state)
{
	memset(ret_state, 0, sizeof(*ret_state));
	if (res_ninit(ret_state) != 0)
		return weir_error_set(-EAGAIN, "the resolver cannot be started");
	ret_state->retrans = TIMEOUT_S;
	ret_state->retry = TRIES;
	if (server != NULL && weir_dns_read_server(server, &ret_state->nsaddr_list[0]))
		ret_state->nscount = 1;
	return 0;
}

static int failed(const char *name, int why)
{
	bool none = why == HOST_NOT_FOUND || why == NO_DATA;
	return weir_error_set(none ? -ENOENT : -EAGAIN, "%s: %s", name,
			      none ? "there is no such name" : "no name server has answered");
}

/* The records of this type that the answer has. 0, or a negative errno with weir_error. */
static int ask(struct __res_state *state, const char *name, ns_type type, uint8_t answer[static ANSWER_BYTES],
	       ns_msg *ret_message)
{
	int length = res_nsearch(state, name, ns_c_in, type, answer, ANSWER_BYTES);
	if (length < 0)
		return failed(name, state->res_h_errno);
	if (length > ANSWER_BYTES)
		length = ANSWER_BYTES;
	if (ns_initparse(answer, length, ret_message) != 0)
		return failed(name, TRY_AGAIN);
	return 0;
}

/* The at-th record of the answer, if it is of this type. */
static bool record_at(ns_msg *message, int at, ns_type type, ns_rr *ret_record)
{
	return ns_parserr(message, ns_s_an, at, ret_record) == 0 && ns_rr_type(*ret_record) == type;
}

static void note_ttl(weir_dns_found *found, uint32_t ttl_s)
{
	if (found->count == 0 || ttl_s < found->ttl_s)
		found->ttl_s = ttl_s;
}

/* ---- hosts ---- */

static bool put_address(const ns_rr *record, ns_type type, uint16_t port, weir_address *ret_address)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	bool is_v6 = type == ns_t_aaaa;
	size_t bytes = is_v6 ? sizeof(v6.sin6_addr) : sizeof(v4.sin_addr);
	if (ns_rr_rdlen(*record) != bytes)
		return false;
	memcpy(is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr, ns_rr_rdata(*record), bytes);
	ret_address->length = is_v6 ? sizeof(v6) : sizeof(v4);
	memcpy(&ret_address->at, is_v6 ? (const void *)&v6 : (const void *)&v4, ret_address->length);
	return true;
}

static int ask_host(struct __res_state *state, const char *host, uint16_t port, ns_type type,
		    weir_dns_found *found)
{
	uint8_t answer[ANSWER_BYTES];
	ns_msg message = {0};
	ns_rr record;
	int error = ask(state, host, type, answer, &message);
	if (error != 0)
		return error;
	for (int i = 0; i < ns_msg_count(message, ns_s_an) && found->count < WEIR_ORIGIN_ADDRESSES; i++) {
		if (!record_at(&message, i, type, &record) ||
		    !put_address(&record, type, port, &found->address[found->count]))
			continue;
		note_ttl(found, ns_rr_ttl(record));
		found->count++;
	}
	return 0;
}

static int find_host(struct __res_state *state, const char *host, uint16_t port, weir_dns_found *found)
{
	uint32_t before = found->count;
	int six = ask_host(state, host, port, ns_t_aaaa, found);
	int four = ask_host(state, host, port, ns_t_a, found);
	if (found->count > before)
		return 0;
	return six == -EAGAIN || four == -EAGAIN ? failed(host, TRY_AGAIN) : failed(host, HOST_NOT_FOUND);
}

int weir_dns_host(const char *server, const char *host, uint16_t port, weir_dns_found *ret_found)
{
	struct __res_state state;
	weir_dns_found found = {0};
	int error = begin(server, &state);
	if (error != 0)
		return error;
	error = find_host(&state, host, port, &found);
	res_nclose(&state);
	if (error == 0)
		*ret_found = found;
	return error;
}

/* ---- services ---- */

typedef struct target {
	char host[HOST_BYTES];
	uint16_t priority, port;
	uint32_t order;
} target;

static int in_order(const void *a, const void *b)
{
	const target *one = a, *two = b;
	if (one->priority != two->priority)
		return one->priority < two->priority ? -1 : 1;
	return one->order < two->order ? -1 : one->order > two->order;
}

static bool read_target(const ns_msg *message, const ns_rr *record, target *ret_target)
{
	const uint8_t *data = ns_rr_rdata(*record);
	if (ns_rr_rdlen(*record) <= SRV_FIXED)
		return false;
	ret_target->priority = (uint16_t)(data[0] << 8 | data[1]);
	ret_target->port = (uint16_t)(data[4] << 8 | data[5]);
	ret_target->order = (uint32_t)random();
	return dn_expand(ns_msg_base(*message), ns_msg_end(*message), data + SRV_FIXED, ret_target->host,
			 sizeof(ret_target->host)) > 0 &&
	       ret_target->port != 0 && ret_target->host[0] != '\0' && strcmp(ret_target->host, ".") != 0;
}

static int ask_targets(struct __res_state *state, const char *name, target *targets, uint32_t *ret_count,
		       uint32_t *ret_ttl_s)
{
	uint8_t answer[ANSWER_BYTES];
	ns_msg message = {0};
	ns_rr record;
	uint32_t count = 0;
	int error = ask(state, name, ns_t_srv, answer, &message);
	if (error != 0)
		return error;
	*ret_ttl_s = UINT32_MAX;
	for (int i = 0; i < ns_msg_count(message, ns_s_an) && count < TARGETS_MOST; i++) {
		if (!record_at(&message, i, ns_t_srv, &record) ||
		    !read_target(&message, &record, &targets[count]))
			continue;
		if (ns_rr_ttl(record) < *ret_ttl_s)
			*ret_ttl_s = ns_rr_ttl(record);
		count++;
	}
	*ret_count = count;
	return count > 0 ? 0 : failed(name, NO_DATA);
}

int weir_dns_service(const char *server, const char *name, weir_dns_found *ret_found)
{
	struct __res_state state;
	weir_dns_found found = {0};
	target targets[TARGETS_MOST];
	uint32_t count = 0, ttl_s = 0;
	int error = begin(server, &state);
	if (error != 0)
		return error;
	error = ask_targets(&state, name, targets, &count, &ttl_s);
	if (error == 0)
		qsort(targets, count, sizeof(targets[0]), in_order);
	for (uint32_t i = 0; error == 0 && i < count && targets[i].priority == targets[0].priority; i++)
		find_host(&state, targets[i].host, targets[i].port, &found);
	res_nclose(&state);
	if (error == 0 && found.count == 0)
		error = failed(name, TRY_AGAIN);
	if (error != 0)
		return error;
	if (ttl_s < found.ttl_s)
		found.ttl_s = ttl_s;
	*ret_found = found;
	return 0;
}
