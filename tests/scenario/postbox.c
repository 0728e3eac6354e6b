/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The webmail's LMTP server and its store, and nothing else, for mail servers to deliver to.
 *
 *	postbox FOLDER PORT USER...     prints its address, and serves until its standard input ends
 *	postbox FOLDER count USER       prints how many messages are in the user's inbox, and checks the store
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weir/weir.h>

#include "webmail/lmtp.h"
#include <mail/mail.h>

static int fail(const char *what)
{
	fprintf(stderr, "postbox: %s: %s\n", what, weir_error());
	return 1;
}

static void wrong(const char *sentence, void *arg)
{
	fprintf(stderr, "%s\n", sentence);
}

static int count(store *s, const char *name)
{
	uint32_t user;
	store_folder folder;
	if (store_user_of_address(s, (weir_span){name, strlen(name)}, &user) != 0 ||
	    store_folder_of(s, user, STORE_INBOX, &folder) != 0)
		return fail("count");
	printf("%u\n", folder.total);
	return store_check(s, wrong, NULL) == 0 ? 0 : 1;
}

static int serve(weir_domain *reactor, const char *folder, const char *url, unsigned port)
{
	char address[100], byte;
	lmtp *server;
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)port)};
	lmtp_options options = {.reactor = reactor,
				.address = (struct sockaddr *)&at,
				.address_length = sizeof(at),
				.store_url = url,
				.spool = folder,
				.host = "postbox"};
	if (lmtp_new(&options, &server) != 0 || lmtp_address(server, address, sizeof(address)) != 0)
		return fail("lmtp");
	printf("%s\n", address);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0) {
	}
	lmtp_free(&server);
	return 0;
}

int main(int argc, char **argv)
{
	char url[500];
	store *s;
	weir_world *world;
	weir_domain *reactor;
	uint32_t user;
	if (argc < 4)
		return 2;
	mail_init();
	snprintf(url, sizeof(url), "sqlite:%s/mail.db", argv[1]);
	if (store_open(url, &s) != 0)
		return fail(url);
	if (strcmp(argv[2], "count") == 0) {
		int status = count(s, argv[3]);
		store_close(s);
		return status;
	}
	for (int i = 3; i < argc; i++)
		(void)store_user_add(s, argv[i], "", NULL, (int64_t)time(NULL), &user);
	store_close(s);
	weir_domain_options options = {.name = "reactor", .threads = 1};
	if (weir_world_new(NULL, &world) != 0 || weir_domain_new(world, &options, &reactor) != 0 ||
	    weir_world_start(world) != 0)
		return fail("world");
	int status = serve(reactor, argv[1], url, (unsigned)atoi(argv[2]));
	weir_world_stop(world, 10 * WEIR_NS_PER_S, NULL);
	weir_world_free(&world);
	return status;
}
