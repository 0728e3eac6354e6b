/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/sheds.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void weir_sheds_init(weir_sheds *sheds)
{
	memset(sheds, 0, sizeof(*sheds));
	pthread_mutex_init(&sheds->lock, NULL);
	sheds->next_id = 1;
}

void weir_sheds_fini(weir_sheds *sheds)
{
	pthread_mutex_destroy(&sheds->lock);
}

/* Whether this second has room for one more. Approximate: two threads at its start may keep a few more. */
static bool take_share(weir_sheds *sheds, uint64_t at_ns)
{
	uint64_t second = at_ns / WEIR_NS_PER_S;
	if (atomic_load_explicit(&sheds->second, memory_order_relaxed) != second) {
		atomic_store_explicit(&sheds->second, second, memory_order_relaxed);
		atomic_store_explicit(&sheds->taken, 0, memory_order_relaxed);
	}
	if (atomic_load_explicit(&sheds->taken, memory_order_relaxed) >= WEIR_SHEDS_PER_S)
		return false;
	return atomic_fetch_add_explicit(&sheds->taken, 1, memory_order_relaxed) < WEIR_SHEDS_PER_S;
}

static void copy_text(char *into, size_t size, weir_span text)
{
	size_t length = text.at == NULL ? 0 : text.length < size ? text.length : size - 1;
	if (length != 0)
		memcpy(into, text.at, length);
	into[length] = '\0';
}

static void copy_client(char *into, size_t size, const struct sockaddr *client)
{
	into[0] = '\0';
	if (client != NULL && client->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)client)->sin_addr, into, (socklen_t)size);
	else if (client != NULL && client->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)client)->sin6_addr, into, (socklen_t)size);
}

static int64_t wall_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void fill(weir_shed *shed, const weir_http_record *record, const weir_why *why)
{
	*shed = (weir_shed){
		.at_ns = record->ended_ns, .at_ms = wall_ms(), .status = (uint16_t)record->status};
	shed->why = why != NULL ? *why : (weir_why){.verdict = record->shed, .klass = (uint8_t)record->klass};
	if (shed->why.stage != NULL)
		snprintf(shed->stage, sizeof(shed->stage), "%s", shed->why.stage);
	else
		copy_text(shed->stage, sizeof(shed->stage), record->stage);
	shed->why.stage = NULL;
	copy_client(shed->client, sizeof(shed->client), record->client);
	if (record->request == NULL)
		return;
	const char *route = weir_request_route_name(record->request);
	copy_text(shed->method, sizeof(shed->method), weir_request_method_text(record->request));
	copy_text(shed->path, sizeof(shed->path), record->path);
	snprintf(shed->route, sizeof(shed->route), "%s", route != NULL ? route : "");
}

void weir_sheds_note(weir_sheds *sheds, const weir_http_record *record, const weir_why *why)
{
	atomic_fetch_add_explicit(&sheds->total, 1, memory_order_relaxed);
	if (!take_share(sheds, record->ended_ns))
		return;
	weir_shed shed;
	fill(&shed, record, why);
	pthread_mutex_lock(&sheds->lock);
	shed.id = sheds->next_id++;
	sheds->ring[shed.id % WEIR_SHEDS_KEPT] = shed;
	pthread_mutex_unlock(&sheds->lock);
}

size_t weir_sheds_read(weir_sheds *sheds, uint64_t after, weir_shed *ret_sheds, size_t most)
{
	size_t count = 0;
	pthread_mutex_lock(&sheds->lock);
	for (uint64_t id = sheds->next_id - 1;
	     id > after && count < most && sheds->next_id - id <= WEIR_SHEDS_KEPT; id--)
		ret_sheds[count++] = sheds->ring[id % WEIR_SHEDS_KEPT];
	pthread_mutex_unlock(&sheds->lock);
	return count;
}
