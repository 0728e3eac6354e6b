/* SPDX-License-Identifier: Apache-2.0 */
#include <weir/throttle.h>

#include <netinet/in.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/siphash.h"
#include "rules/match.h"

#define ROW            4u
#define NAME_MAX_BYTES 128u

typedef struct throttle_place {
	uint64_t key; /* 0: empty */
	uint64_t last_ns, until_ns;
	unsigned failures;
} throttle_place;

struct weir_throttle {
	weir_siphash_key secret; /* const after init */
	pthread_mutex_t lock;
	throttle_place place[WEIR_THROTTLE_PLACES]; /* under the lock */
};

enum { NAME_CLIENT, CLIENT, NAME, KEYS };

static const unsigned allowed[KEYS] = {[NAME_CLIENT] = WEIR_THROTTLE_NAME_CLIENT,
				       [CLIENT] = WEIR_THROTTLE_CLIENT,
				       [NAME] = WEIR_THROTTLE_NAME};

weir_throttle *weir_throttle_new(void)
{
	weir_throttle *t = weir_mem_zalloc(sizeof(*t));
	if (t == NULL || weir_siphash_key_init(&t->secret) != 0) {
		weir_mem_free(t);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void weir_throttle_free(weir_throttle *t)
{
	if (t == NULL)
		return;
	pthread_mutex_destroy(&t->lock);
	weir_mem_free(t);
}

static uint64_t hash(const weir_throttle *t, const void *bytes, size_t length)
{
	uint64_t key = weir_siphash(&t->secret, bytes, length);
	return key != 0 ? key : 1;
}

/* A proxy on this machine, behind which there may be everybody. */
static bool is_local(const struct sockaddr *client)
{
	if (client->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)client)->sin_addr.s_addr) >> 24 ==
		       127;
	return client->sa_family != AF_INET6 ||
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)client)->sin6_addr);
}

/* In the order of `allowed`. Upper and lower case are the same name. */
static void find_keys(const weir_throttle *t, weir_span name, const struct sockaddr *client,
		      uint64_t ret_keys[KEYS])
{
	unsigned char text[9 + NAME_MAX_BYTES];
	size_t head = 1 + weir_quota_client_key(client, text + 1), length = 0;
	for (; length < name.length && length < NAME_MAX_BYTES; length++) {
		char c = name.at[length];
		text[head + length] = (unsigned char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
	}
	text[0] = 0;
	ret_keys[NAME_CLIENT] = hash(t, text, head + length);
	text[0] = 1;
	ret_keys[CLIENT] = hash(t, text, head);
	text[head - 1] = 2;
	ret_keys[NAME] = hash(t, text + head - 1, 1 + length);
}

static throttle_place *find_locked(weir_throttle *t, uint64_t key)
{
	throttle_place *row = &t->place[key % (WEIR_THROTTLE_PLACES / ROW) * ROW];
	for (unsigned i = 0; i < ROW; i++)
		if (row[i].key == key)
			return &row[i];
	return NULL;
}

static throttle_place *take_locked(weir_throttle *t, uint64_t key)
{
	throttle_place *found = find_locked(t, key),
		       *row = &t->place[key % (WEIR_THROTTLE_PLACES / ROW) * ROW];
	if (found != NULL)
		return found;
	found = row;
	for (unsigned i = 1; i < ROW; i++)
		if (row[i].last_ns < found->last_ns)
			found = &row[i];
	*found = (throttle_place){.key = key};
	return found;
}

uint64_t weir_throttle_wait(weir_throttle *t, weir_span name, const struct sockaddr *client, uint64_t now_ns)
{
	uint64_t keys[KEYS], wait_ns = 0;
	find_keys(t, name, client, keys);
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < KEYS; i++) {
		const throttle_place *place = find_locked(t, keys[i]);
		if (place != NULL && place->until_ns > now_ns && place->until_ns - now_ns > wait_ns)
			wait_ns = place->until_ns - now_ns;
	}
	pthread_mutex_unlock(&t->lock);
	return wait_ns;
}

static uint64_t pause_after(unsigned failures, unsigned free_of_charge)
{
	if (failures < free_of_charge)
		return 0;
	unsigned doubled = failures - free_of_charge;
	uint64_t ns = WEIR_NS_PER_S << (doubled < 10 ? doubled : 10);
	return ns < WEIR_THROTTLE_MOST_NS ? ns : WEIR_THROTTLE_MOST_NS;
}

void weir_throttle_failed(weir_throttle *t, weir_span name, const struct sockaddr *client, uint64_t now_ns)
{
	uint64_t keys[KEYS];
	find_keys(t, name, client, keys);
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < KEYS; i++) {
		if (i == CLIENT && is_local(client))
			continue;
		throttle_place *place = take_locked(t, keys[i]);
		if (now_ns - place->last_ns > WEIR_THROTTLE_FORGET_NS)
			place->failures = 0;
		place->failures++;
		place->last_ns = now_ns;
		place->until_ns = now_ns + pause_after(place->failures, allowed[i]);
	}
	pthread_mutex_unlock(&t->lock);
}

void weir_throttle_passed(weir_throttle *t, weir_span name, const struct sockaddr *client)
{
	uint64_t keys[KEYS];
	find_keys(t, name, client, keys);
	pthread_mutex_lock(&t->lock);
	throttle_place *place = find_locked(t, keys[NAME_CLIENT]);
	if (place != NULL)
		*place = (throttle_place){.key = 0};
	pthread_mutex_unlock(&t->lock);
}
