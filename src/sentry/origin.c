/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/origin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/siphash.h"
#include "base/text.h"
#include "keys/address.h"
#include "tls/tls.h"

#define QUOTE_BYTES 64

#define FAILURES      5
#define EJECT_NS      (2 * WEIR_NS_PER_S)
#define EJECT_MOST_NS (60 * WEIR_NS_PER_S)
#define SLOW_START_NS (10 * WEIR_NS_PER_S)
#define RISE          2
#define FALL          3

/* A backend's share at the beginning of a slow start. */
#define WEIGHT_LEAST .1
/* The weight of one answer in the average, as a shift: 1/8. */
#define LATENCY_SHIFT 3

#define LOAD(atom)         atomic_load_explicit(&(atom), memory_order_relaxed)
#define STORE(atom, value) atomic_store_explicit(&(atom), value, memory_order_relaxed)
#define ADD(atom)          atomic_fetch_add_explicit(&(atom), 1, memory_order_relaxed)

/* ---- making one ---- */

/* No bytes that would end a field or begin another part of a URL. */
static bool is_host(const char *host)
{
	for (const char *at = host; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || strchr("/?#@\"\\<>", *at) != NULL)
			return false;
	return *host != '\0';
}

static int refuse_url(const char *url, const char *why)
{
	char quoted[QUOTE_BYTES];
	return weir_error_set(-EINVAL, "'%s': write %s", weir_text_quote(quoted, sizeof(quoted), url), why);
}

/* The part after the scheme, and what the scheme says; NULL: it is none of ours. */
static const char *read_scheme(const char *url, weir_origin_url *found)
{
	static const struct {
		const char *text;
		bool secure, h2;
	} schemes[] = {{"http://", false, false},
		       {"https://", true, false},
		       {"h2c://", false, true},
		       {"h2://", true, true}};
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		size_t length = strlen(schemes[i].text);
		if (strncmp(url, schemes[i].text, length) != 0)
			continue;
		found->secure = schemes[i].secure;
		found->h2 = schemes[i].h2;
		return url + length;
	}
	return NULL;
}

/* "unix:/run/app.sock" */
static int read_local(const char *url, weir_origin_url *ret_url)
{
	weir_origin_url found = {.local = true, .host = "localhost"};
	struct sockaddr_storage address;
	socklen_t length;
	int failed = weir_address_read_local(url, &address, &length);
	if (failed != 0)
		return failed;
	snprintf(found.name, sizeof(found.name), "%s", url);
	*ret_url = found;
	return 0;
}

/* "srv:_http._tcp.app.test" */
static int read_service(const char *url, weir_origin_url *ret_url)
{
	weir_origin_url found = {.service = true};
	const char *name = url + strlen("srv:");
	if (!is_host(name) || strchr(name, ':') != NULL || strlen(url) >= sizeof(found.name))
		return refuse_url(url, "srv:_SERVICE._tcp.DOMAIN");
	snprintf(found.name, sizeof(found.name), "%s", url);
	snprintf(found.host, sizeof(found.host), "%s", name);
	*ret_url = found;
	return 0;
}

int weir_origin_read_url(const char *url, weir_origin_url *ret_url)
{
	static const char *const form =
		"http://HOST:PORT, https://HOST:PORT, h2c://HOST:PORT, h2://HOST:PORT, "
		"unix:/PATH or srv:NAME";
	if (weir_address_is_local(url))
		return read_local(url, ret_url);
	if (strncmp(url, "srv:", 4) == 0)
		return read_service(url, ret_url);
	weir_origin_url found = {0};
	char full[WEIR_ORIGIN_NAME + sizeof(":443")];
	const char *name = read_scheme(url, &found);
	if (name == NULL)
		return refuse_url(url, form);
	const char *path = strchrnul(name, '/');
	if (path[0] != '\0' && path[1] != '\0')
		return refuse_url(url, "it without the path: requests keep theirs");
	if ((size_t)(path - name) >= sizeof(found.name))
		return refuse_url(url, form);
	memcpy(found.name, name, (size_t)(path - name));
	const char *bracket = strrchr(found.name, ']');
	bool has_port = strchr(bracket != NULL ? bracket : found.name, ':') != NULL;
	snprintf(full, sizeof(full), "%s%s", found.name, has_port ? "" : found.secure ? ":443" : ":80");
	if (!weir_address_split(full, found.host, sizeof(found.host), &found.port) || !is_host(found.host) ||
	    found.port == 0)
		return refuse_url(url, form);
	*ret_url = found;
	return 0;
}

static void fill_options(weir_origin_options *options)
{
	if (options->failures == 0)
		options->failures = FAILURES;
	if (options->eject_ns == 0)
		options->eject_ns = EJECT_NS;
	if (options->eject_most_ns == 0)
		options->eject_most_ns = EJECT_MOST_NS;
	if (options->slow_start_ns == 0)
		options->slow_start_ns = SLOW_START_NS;
	if (options->rise == 0)
		options->rise = RISE;
	if (options->fall == 0)
		options->fall = FALL;
	options->url = NULL;
	options->ca = NULL;
	options->resolver = NULL;
	options->host_name = NULL;
}

static int set_host(weir_origin *backend, const char *name)
{
	if (backend->options.host == WEIR_HOST_CLIENT)
		return 0;
	if (backend->options.host == WEIR_HOST_BACKEND)
		name = weir_origin_host(backend);
	if (name == NULL || strlen(name) > 255 || !is_host(name))
		return weir_error_set(-EINVAL, "backend '%s': '%s' is no host", backend->at.name,
				      name != NULL ? name : "");
	backend->sent_host = weir_mem_strdup(name);
	return backend->sent_host != NULL ? 0 : -ENOMEM;
}

static int copy_text(const char *text, char **ret_copy)
{
	*ret_copy = text != NULL ? weir_mem_strdup(text) : NULL;
	return text == NULL || *ret_copy != NULL ? 0 : -ENOMEM;
}

int weir_origin_new(const weir_origin_options *options, weir_origin **ret_backend)
{
	weir_origin *backend = weir_mem_zalloc(sizeof(*backend));
	if (backend == NULL)
		return weir_error_set(-ENOMEM, "backend: out of memory");
	pthread_mutex_init(&backend->found.lock, NULL);
	backend->options = *options;
	backend->options.nucleus = NULL;
	fill_options(&backend->options);
	int error = weir_origin_read_url(options->url != NULL ? options->url : "", &backend->at);
	if (error == 0)
		error = set_host(backend, options->host_name);
	if (error == 0)
		error = copy_text(options->ca, &backend->ca);
	if (error == 0)
		error = copy_text(options->resolver, &backend->resolver);
	if (error == -ENOMEM)
		weir_error_set(error, "backend: out of memory");
	/* Now, so that no reactor reads certificates from disk. */
	if (error == 0 && backend->at.secure && !options->unverified)
		error = weir_tls_prepare(backend->ca);
	if (error == 0) {
		/* Without a secret: other processes are to choose the same one. */
		backend->hash =
			weir_siphash(&(weir_siphash_key){0}, backend->at.name, strlen(backend->at.name));
		backend->note_length = (size_t)snprintf(backend->note, sizeof(backend->note), "upstream=%s",
							backend->at.name);
		error = weir_origin_resolve(backend);
	}
	if (error == 0)
		*ret_backend = backend;
	else
		weir_origin_free(backend);
	return error;
}

void weir_origin_free(weir_origin *backend)
{
	if (backend == NULL)
		return;
	pthread_mutex_destroy(&backend->found.lock);
	weir_mem_free(backend->sent_host);
	weir_mem_free(backend->ca);
	weir_mem_free(backend->resolver);
	weir_mem_free(backend->service);
	weir_mem_free(backend);
}

/* ---- health ---- */

bool weir_origin_usable(const weir_origin *backend, uint64_t now_ns)
{
	return !LOAD(backend->shared.down) && LOAD(backend->shared.ejected_until_ns) <= now_ns;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

double weir_origin_weight(const weir_origin *backend, uint64_t now_ns)
{
	uint64_t back_ns = later(LOAD(backend->shared.recovered_ns), LOAD(backend->shared.ejected_until_ns));
	uint64_t ramp_ns = backend->options.slow_start_ns;
	if (back_ns == 0 || ramp_ns == UINT64_MAX || (now_ns > back_ns && now_ns - back_ns >= ramp_ns))
		return 1;
	double part = now_ns > back_ns ? (double)(now_ns - back_ns) / (double)ramp_ns : 0;
	return part > WEIGHT_LEAST ? part : WEIGHT_LEAST;
}

bool weir_origin_failed(weir_origin *backend)
{
	return ADD(backend->shared.failed_in_row) + 1 >= backend->options.failures;
}

bool weir_origin_is_failing(const weir_origin *backend)
{
	return LOAD(backend->shared.failed_in_row) >= backend->options.failures;
}

void weir_origin_eject(weir_origin *backend, uint64_t now_ns)
{
	uint64_t most_ns = backend->options.eject_most_ns, time_ns = backend->options.eject_ns;
	uint64_t last_ns = LOAD(backend->shared.ejected_until_ns);
	/* It was well for so long that this counts as the first ejection. */
	if (last_ns != 0 && now_ns > last_ns && now_ns - last_ns > most_ns)
		STORE(backend->shared.ejections_in_row, 0);
	uint32_t before = LOAD(backend->shared.ejections_in_row);
	for (uint32_t i = 0; i < before && time_ns < most_ns; i++)
		time_ns *= 2;
	STORE(backend->shared.ejections_in_row, before + 1);
	STORE(backend->shared.failed_in_row, 0);
	STORE(backend->shared.ejected_until_ns, now_ns + (time_ns < most_ns ? time_ns : most_ns));
	STORE(backend->shared.away, true);
	ADD(backend->shared.ejections);
}

bool weir_origin_checked(weir_origin *backend, bool good, uint64_t now_ns)
{
	bool down = LOAD(backend->shared.down);
	ADD(backend->shared.checks);
	if (!good)
		ADD(backend->shared.checks_failed);
	if (good != down) {
		STORE(backend->shared.checks_in_row, 0);
		return false;
	}
	if (ADD(backend->shared.checks_in_row) + 1 < (down ? backend->options.rise : backend->options.fall))
		return false;
	STORE(backend->shared.checks_in_row, 0);
	if (down)
		STORE(backend->shared.recovered_ns, now_ns);
	STORE(backend->shared.down, !down);
	return true;
}

/* ---- calls ---- */

bool weir_origin_take(weir_origin *backend)
{
	uint32_t most = backend->options.concurrency;
	uint32_t before = atomic_fetch_add_explicit(&backend->shared.in_flight, 1, memory_order_relaxed);
	if (most == 0 || before < most)
		return true;
	weir_origin_give(backend);
	return false;
}

void weir_origin_give(weir_origin *backend)
{
	atomic_fetch_sub_explicit(&backend->shared.in_flight, 1, memory_order_relaxed);
}

void weir_origin_answered(weir_origin *backend, uint64_t first_byte_ns)
{
	uint64_t average_ns = LOAD(backend->shared.latency_ns);
	if (LOAD(backend->shared.failed_in_row) != 0)
		STORE(backend->shared.failed_in_row, 0);
	if (average_ns == 0)
		average_ns = first_byte_ns;
	else
		average_ns = average_ns - (average_ns >> LATENCY_SHIFT) + (first_byte_ns >> LATENCY_SHIFT);
	STORE(backend->shared.latency_ns, average_ns);
}
