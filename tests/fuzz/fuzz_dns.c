/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the answers of name servers: to questions for addresses, and for a service and then the addresses of its targets. The resolver's
 * place is taken by one that gives the answers of the input in turn, each after two bytes of its length.
 */

#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <string.h>

#include "sentry/dns.h"
#include "target.h"

#define PORT 8080

/* ---- the resolver ---- */

static struct {
	const uint8_t *at;
	size_t left;
	unsigned asked;
} answers;

static void begin(const uint8_t *data, size_t size)
{
	answers.at = data;
	answers.left = size;
	answers.asked = 0;
}

int res_ninit(res_state state)
{
	return 0;
}

void res_nclose(res_state state)
{
}

/* As the real one, it may say that there was more than fits. Without an answer: there is no such name, or nobody answers. */
int res_nsearch(res_state state, const char *name, int class, int type, unsigned char *answer, int most)
{
	CHECK(strlen(name) < NS_MAXDNAME && class == ns_c_in);
	CHECK(type == ns_t_a || type == ns_t_aaaa || type == ns_t_srv);
	answers.asked++;
	if (answers.left < 2) {
		state->res_h_errno = answers.left == 0 ? HOST_NOT_FOUND : TRY_AGAIN;
		return -1;
	}
	size_t length = (size_t)(answers.at[0] << 8 | answers.at[1]);
	answers.at += 2;
	answers.left -= 2;
	length = length < answers.left ? length : answers.left;
	memcpy(answer, answers.at, length < (size_t)most ? length : (size_t)most);
	answers.at += length;
	answers.left -= length;
	return (int)length;
}

/* ---- what is promised ---- */

static bool has_port(const weir_address *address, uint16_t *ret_port)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)&address->at;
	const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)&address->at;
	bool is_six = address->at.ss_family == AF_INET6;
	*ret_port = ntohs(is_six ? six->sin6_port : four->sin_port);
	return is_six ? address->length == sizeof(*six)
		      : address->at.ss_family == AF_INET && address->length == sizeof(*four);
}

/* port 0: each target has its own. */
static void check_found(int error, const weir_dns_found *found, uint16_t port)
{
	uint16_t has;
	if (error != 0) {
		CHECK(error == -ENOENT || error == -EAGAIN);
		CHECK(found->count == 77); /* untouched */
		check_sentence();
		return;
	}
	CHECK(found->count > 0 && found->count <= WEIR_ORIGIN_ADDRESSES);
	for (uint32_t i = 0; i < found->count; i++) {
		CHECK(has_port(&found->address[i], &has));
		CHECK(port != 0 ? has == port : has != 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	weir_dns_found found = {.count = 77};
	begin(data, size);
	int error = weir_dns_host("127.0.0.1", "app.test", PORT, &found);
	check_found(error, &found, PORT);
	CHECK(answers.asked == 2);
	found.count = 77;
	begin(data, size);
	error = weir_dns_service(NULL, "_http._tcp.app.test", &found);
	check_found(error, &found, 0);
	CHECK(answers.asked <= 1 + 2 * 64);
	return 0;
}
