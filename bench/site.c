/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder served on one thread, with nothing around it: what a hit of the page cache costs. Ends on SIGTERM.
 *
 *	site FOLDER PORT
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common.h"
#include "web/site.h"

int main(int argc, char **argv)
{
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_cache *cache;
	weir_site *site;
	weir_routes *routes;
	weir_http *http;
	sigset_t ends;
	int number;
	BENCH_REQUIRE(argc == 3);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);

	weir_site_options options = {.name = "site", .root = argv[1]};
	BENCH_REQUIRE(weir_world_new(NULL, &world) == 0);
	BENCH_REQUIRE(weir_domain_new(world, &(weir_domain_options){.name = "web", .threads = 1}, &domain) ==
		      0);
	BENCH_REQUIRE(weir_files_new(world, NULL, &files) == 0);
	BENCH_REQUIRE(weir_cache_new(domain, files, NULL, &cache) == 0);
	BENCH_REQUIRE(weir_site_new(domain, cache, &options, &site) == 0);
	BENCH_REQUIRE(weir_world_start(world) == 0);
	BENCH_REQUIRE(weir_routes_new(&routes) == 0);
	BENCH_REQUIRE(weir_routes_add(routes, &(weir_route_options){.name = "all",
								    .stage = weir_site_stage(site),
								    .klass = -1}) == 0);
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)atoi(argv[2])),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	weir_http_listen listen = {.address = (struct sockaddr *)&at, .address_length = sizeof(at)};
	BENCH_REQUIRE(weir_http_new(&(weir_http_options){.domain = domain, .routes = routes}, &http) == 0);
	BENCH_REQUIRE(weir_http_add_listener(http, &listen, NULL) == 0);
	puts("ready");
	fflush(stdout);

	sigwait(&ends, &number);
	weir_http_free(&http);
	weir_world_stop(world, WEIR_NS_PER_S, NULL);
	weir_routes_unref(routes);
	weir_site_free(&site);
	weir_cache_free(&cache);
	weir_files_free(&files);
	weir_world_free(&world);
}
