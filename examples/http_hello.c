/* SPDX-License-Identifier: Apache-2.0 */
/* A web server with one stage: every request gets a greeting, as long as the stage admits it. */
#include <arpa/inet.h>
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir/weir.h>

static void greet(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		weir_request_reply_text(weir_request_of(events[i]), 200, WEIR_SPAN("hello\n"));
}

int main(int argc, char **argv)
{
	weir_world *world;
	weir_domain *domain;
	weir_stage *stage;
	weir_routes *routes;
	weir_http *http;
	char address[64];
	int signal = 0;
	sigset_t ends;
	/* Threads inherit what is blocked, so that sigwait is who gets it. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);

	weir_domain_options reactors = {.name = "web", .kind = WEIR_REACTOR};
	weir_stage_options hello = {
		.name = "hello", .handle = greet, .drop = weir_request_drop, .capacity = 1000};
	if (weir_world_new(NULL, &world) || weir_domain_new(world, &reactors, &domain) ||
	    weir_stage_new(domain, &hello, &stage) || weir_world_start(world) || weir_routes_new(&routes) ||
	    weir_routes_add(routes, &(weir_route_options){.name = "all", .stage = stage}))
		errx(1, "%s", weir_error());

	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(argc > 1 ? (uint16_t)atoi(argv[1]) : 8080),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_options server = {.domain = domain, .routes = routes};
	weir_http_listen listen = {
		.address = (struct sockaddr *)&at, .address_length = sizeof(at), .http2 = true};
	if (weir_http_new(&server, &http) || weir_http_add_listener(http, &listen, NULL) ||
	    weir_http_address(http, 0, address, sizeof(address), NULL))
		errx(1, "%s", weir_error());
	printf("http://%s/ (end with ^C)\n", address);
	fflush(stdout);

	sigwait(&ends, &signal);
	/* Answers first, then whatever work is left: nobody who was let in is cut. */
	if (weir_http_drain_wait(http, 5 * WEIR_NS_PER_S))
		warnx("%s", weir_error());
	if (weir_world_stop(world, 5 * WEIR_NS_PER_S, NULL))
		warnx("%s", weir_error());
	weir_http_free(&http);
	weir_routes_unref(routes);
	weir_world_free(&world);
}
