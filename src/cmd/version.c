/* SPDX-License-Identifier: Apache-2.0 */
/* `weir version`: what a bug report needs about this binary and this machine. */

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <weir/base.h>
#include <weir/loop.h>

#include "cmd/verb.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Makes a loop on a back end (NULL: the default), and prints whether that worked. */
static void print_backend(const char *backend)
{
	weir_loop *loop;

	if (backend != NULL)
		setenv("WEIR_LOOP", backend, 1);
	else
		unsetenv("WEIR_LOOP");
	int result = weir_loop_new(&loop);
	if (result < 0) {
		printf("%s: no (%s)\n", backend ? backend : "none works", weir_error());
		return;
	}
	printf("%s%s\n", weir_loop_backend(loop), backend ? ": yes" : "");
	weir_loop_free(&loop);
}

static const weir_options table = {
	.program = "weir version",
	.about = "usage: weir version\n\n"
		 "Shows the version, which back ends of the event loop work here and which one is used\n"
		 "by default, the compiler, and the libraries' versions: the first lines of a bug report.\n",
};

static int run(int argc, char **argv)
{
	if (weir_options_read(&table, NULL, NULL, argc, argv, NULL) != WEIR_EXIT_OK)
		return WEIR_EXIT_USAGE;
	printf("weir %s\n", weir_version());
	printf("  loop      ");
	print_backend("uring");
	printf("            ");
	print_backend("epoll");
	printf("  default   ");
	print_backend(NULL);
	printf("  compiler  %s\n", COMPILER);
	/* liburing's version is that of the build; jansson's is that of the library in use. */
	printf("  with      liburing %s, jansson %s\n", WEIR_LIBURING_VERSION, jansson_version_str());
	struct utsname system;
	if (uname(&system) == 0)
		printf("  system    %s %s %s\n", system.sysname, system.release, system.machine);
	return WEIR_EXIT_OK;
}

const weir_verb weir_verb_version = {
	.name = "version",
	.summary = "shows the version, and what it was built with and runs on",
	.options = &table,
	.run = run,
};
