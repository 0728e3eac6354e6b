/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a service: opened or taken over, changed by a reload, handed to a successor. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "base/error.h"
#include "service/confine.h"
#include "service/service_inside.h"
#include "tls/tls.h"

#define ADMIN_NAME "admin"
/* How the names of sockets begin, for a successor, that no Weir has made. */
#define GIVEN "given "

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return memcmp(a, b, offsetof(struct sockaddr_in, sin_zero)) == 0;
	if (a->sa_family == AF_INET6) {
		const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)a,
					  *y = (const struct sockaddr_in6 *)b;
		return x->sin6_port == y->sin6_port &&
		       memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
	}
	return a->sa_family == AF_UNIX &&
	       strncmp(((const struct sockaddr_un *)a)->sun_path, ((const struct sockaddr_un *)b)->sun_path,
		       sizeof(((const struct sockaddr_un *)a)->sun_path)) == 0;
}

/* The same except for the port, if the system is to choose that. */
static bool same_host(const struct sockaddr *bound, const struct sockaddr *address)
{
	struct sockaddr_storage any = {0};
	if (address->sa_family == AF_INET && ((const struct sockaddr_in *)address)->sin_port == 0) {
		memcpy(&any, bound, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)&any)->sin_port = 0;
	} else if (address->sa_family == AF_INET6 && ((const struct sockaddr_in6 *)address)->sin6_port == 0) {
		memcpy(&any, bound, sizeof(struct sockaddr_in6));
		((struct sockaddr_in6 *)&any)->sin6_port = 0;
	} else {
		return false;
	}
	return same_address((const struct sockaddr *)&any, address);
}

/* Whether a bound socket is the one configured: by its address, or by its name from a predecessor. */
static bool is_wanted(const weir_inherited *socket, const struct sockaddr *bound,
		      const struct sockaddr *address, const char *name)
{
	return same_address(bound, address) ||
	       (socket->name != NULL && strcmp(socket->name, name) == 0 && same_host(bound, address));
}

/* Whoever made a socket path removes it: a Weir, or the service manager, which gave it to the first one. */
static bool is_given(const weir_inherited *socket)
{
	return socket->name == NULL || strncmp(socket->name, GIVEN, sizeof(GIVEN) - 1) == 0;
}

/* The inherited sockets that listen at this address. ret_given: one is of somebody else's making. */
static size_t take_inherited(const struct sockaddr *address, const char *name, weir_inherited *inherited,
			     size_t count, int *ret_fds, size_t most, bool *ret_given)
{
	size_t found = 0;
	*ret_given = false;
	for (size_t i = 0; i < count && found < most; i++) {
		struct sockaddr_storage bound = {0};
		socklen_t length = sizeof(bound);
		if (inherited[i].used ||
		    getsockname(inherited[i].fd, (struct sockaddr *)&bound, &length) != 0 ||
		    !is_wanted(&inherited[i], (const struct sockaddr *)&bound, address, name))
			continue;
		inherited[i].used = true;
		*ret_given |= is_given(&inherited[i]);
		ret_fds[found++] = inherited[i].fd;
	}
	return found;
}

/* The entry of one that was closed, or a new one; NULL: there is none. */
static weir_listening *free_listening(weir_service *service)
{
	for (unsigned i = 0; i < service->listens; i++)
		if (service->listen[i].closed) {
			weir_tls_unref(service->listen[i].tls);
			return &service->listen[i];
		}
	return service->listens < WEIR_LISTENERS_MOST ? &service->listen[service->listens++] : NULL;
}

/* A folder that the configuration did not name at the start is closed to a reload and to a successor. */
int weir_service_explain_refusal(int failed)
{
	char said[400];
	if (failed != -EACCES || (weir_confine_held() & WEIR_CONFINED_WRITING) == 0)
		return failed;
	snprintf(said, sizeof(said), "%s", weir_error());
	return weir_error_set(
		failed,
		"%s; its folder may be outside of what this process was confined to when it started: "
		"restart it, or see process { allow-write = ... }",
		said);
}

int weir_listeners_add(weir_service *service, const weir_config *config, const weir_config_listen *listen,
		       weir_inherited *inherited, size_t count)
{
	int fds[WEIR_THREADS_MAX];
	bool given;
	weir_listening *at = free_listening(service);
	if (at == NULL)
		return weir_error_set(-ENOSPC, "there are more than %u listen blocks", WEIR_LISTENERS_MOST);
	/* It counts as closed until all of it is there. */
	*at = (weir_listening){.nth = weir_config_nth(config, listen), .closed = true};
	snprintf(at->title, sizeof(at->title), "%s", listen->head.title);
	snprintf(at->name, sizeof(at->name), "listen %.127s %u", listen->head.title, at->nth);
	int failed = listen->tls ? weir_config_tls(listen, &at->tls) : 0;
	const struct sockaddr *address = (const struct sockaddr *)&listen->address;
	size_t found = take_inherited(address, at->name, inherited, count, fds, WEIR_THREADS_MAX, &given);
	if (given)
		snprintf(at->name, sizeof(at->name), GIVEN "listen %.127s %u", listen->head.title, at->nth);
	weir_http_listen options = {.address = address,
				    .address_length = listen->address_length,
				    .file = &listen->file,
				    .fds = found > 0 ? fds : NULL,
				    .fd_count = found,
				    .owns_path = !given,
				    .backlog = (int)listen->backlog,
				    .max_connections = listen->max_connections,
				    .tls = at->tls,
				    .http2 = listen->http2,
				    .proxy = listen->proxy,
				    .trusted = listen->trusted,
				    .hops = listen->hops};
	if (failed == 0)
		failed = weir_http_add_listener(service->http, &options, &at->number);
	if (failed != 0) {
		weir_tls_unref(at->tls);
		at->tls = NULL;
		return weir_service_explain_refusal(failed);
	}
	at->closed = false;
	at->fresh = true;
	return 0;
}

int weir_listeners_admin(weir_service *service, weir_inherited *inherited, size_t count)
{
	int fds[WEIR_THREADS_MAX];
	const weir_config_admin *admin = &service->config->admin;
	const struct sockaddr *address = (const struct sockaddr *)&admin->address;
	if (service->admin == NULL)
		return 0;
	size_t found = take_inherited(address, ADMIN_NAME, inherited, count, fds, WEIR_THREADS_MAX,
				      &service->admin_given);
	weir_http_listen listen = {.address = address,
				   .address_length = admin->address_length,
				   .fds = found > 0 ? fds : NULL,
				   .fd_count = found,
				   .owns_path = !service->admin_given};
	int failed = weir_admin_listen(service->admin, &listen);
	/* A second process on the machine often has the default address, which nobody wrote. */
	if (failed == -EADDRINUSE)
		weir_error_set(failed,
			       "admin: %s is taken; choose another with --admin ADDR:PORT, or --admin off",
			       admin->head.title);
	return failed;
}

/* ---- a reload ---- */

static weir_listening *listening_at(weir_service *service, const char *title, unsigned nth)
{
	for (unsigned i = 0; i < service->listens; i++)
		if (!service->listen[i].closed && service->listen[i].nth == nth &&
		    strcmp(service->listen[i].title, title) == 0)
			return &service->listen[i];
	return NULL;
}

static bool is_configured(const weir_config *config, const weir_listening *at)
{
	return weir_config_listen_find(config, at->title, at->nth) != NULL;
}

/* The listener of a listen block, if there is one. */
static weir_listening *listening_of(weir_service *service, const weir_config *config, unsigned listen)
{
	return listening_at(service, config->listen[listen].head.title,
			    weir_config_nth(config, &config->listen[listen]));
}

static void close_listening(weir_service *service, weir_listening *at)
{
	weir_http_close_listener(service->http, at->number);
	at->closed = true;
}

void weir_listeners_keep(weir_service *service, bool keep)
{
	for (unsigned i = 0; i < service->listens; i++) {
		weir_listening *at = &service->listen[i];
		if (at->fresh && !keep)
			close_listening(service, at);
		if (at->owned && !keep)
			weir_http_set_file(service->http, at->number, &at->file_before, NULL);
		at->fresh = at->owned = false;
	}
}

static bool same_file(const weir_listen_file *a, const weir_listen_file *b)
{
	return a->mode == b->mode && a->user == b->user && a->group == b->group;
}

/* What somebody else changed stays until the configuration changes. A path that is not ours is left alone. */
static int change_file(weir_service *service, weir_listening *at, const weir_config_listen *listen)
{
	const weir_config_listen *old = weir_config_listen_find(service->config, at->title, at->nth);
	if (old == NULL || same_file(&listen->file, &old->file))
		return 0;
	int failed = weir_http_set_file(service->http, at->number, &listen->file, &at->file_before);
	at->owned = failed == 0;
	return failed == -ENOENT ? 0 : failed;
}

int weir_listeners_prepare(weir_service *service, const weir_config *config,
			   weir_tls *ret_tls[WEIR_LISTENERS_MOST])
{
	int failed = 0;
	for (unsigned i = 0; failed == 0 && i < config->listens; i++) {
		weir_listening *at = listening_of(service, config, i);
		if (at == NULL)
			failed = weir_listeners_add(service, config, &config->listen[i], NULL, 0);
		else if (config->listen[i].tls)
			failed = weir_config_tls(&config->listen[i], &ret_tls[at - service->listen]);
		if (failed == 0 && at != NULL)
			failed = change_file(service, at, &config->listen[i]);
	}
	return failed;
}

/* New certificates for listeners that stay; listeners without a listen block stop accepting. */
void weir_listeners_change(weir_service *service, const weir_config *config,
			   weir_tls *tls[WEIR_LISTENERS_MOST])
{
	for (unsigned i = 0; i < service->listens; i++) {
		weir_listening *at = &service->listen[i];
		if (tls[i] != NULL && weir_http_set_tls(service->http, at->number, tls[i]) == 0) {
			weir_tls_unref(at->tls);
			at->tls = tls[i];
			tls[i] = NULL;
		}
		if (!at->closed && !is_configured(config, at))
			close_listening(service, at);
	}
}

/* ---- a successor ---- */

static size_t name_sockets(weir_inherited *ret_sockets, const int *fds, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		ret_sockets[i] = (weir_inherited){.fd = fds[i], .name = name};
	return count;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t weir_service_listeners(const weir_service *service, weir_inherited *ret_sockets, size_t most)
{
	int fds[WEIR_THREADS_MAX];
	size_t count = 0, got;
	for (unsigned i = 0; i < service->listens; i++) {
		const weir_listening *at = &service->listen[i];
		if (at->closed)
			continue;
		got = weir_http_fds(service->http, at->number, fds, least(most - count, WEIR_THREADS_MAX));
		count += name_sockets(ret_sockets + count, fds, got, at->name);
	}
	if (service->admin != NULL) {
		got = weir_admin_fds(service->admin, fds, least(most - count, WEIR_THREADS_MAX));
		count += name_sockets(ret_sockets + count, fds, got,
				      service->admin_given ? GIVEN ADMIN_NAME : ADMIN_NAME);
	}
	return count;
}
