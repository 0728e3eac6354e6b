/* SPDX-License-Identifier: Apache-2.0 */
/* `weir-webmail`: the service, and the verbs for those who run it. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kind.h"
#include "mail/mail.h"
#include "verbs.h"

static const weir_kind *const kinds[] = {&webmail_kind, &weir_kind_root, NULL};

static const weir_program program = {
	.name = "weir-webmail",
	.usage = "weir-webmail --data DIR [FLAG...]\n"
		 "       weir-webmail user add|passwd|class|remove|list --data DIR ...\n"
		 "       weir-webmail import --data DIR ...\n"
		 "       weir-webmail check --data DIR\n",
	.summary = "Reads and writes mail in a browser. Under overload it keeps its response times: those "
		   "who are\n"
		   "logged in come first, pages become simpler, and the others see a page that tries again.",
	.examples = "  weir-webmail user add ann --data /srv/mail\n"
		    "  weir-webmail --data /srv/mail --listen 127.0.0.1:8025 --lmtp 127.0.0.1:2424\n",
	.more = "docs/webmail.md and docs/config.md",
	.kinds = kinds,
	.missing = webmail_missing,
};

typedef struct webmail_verb {
	const char *name;
	int (*run)(int argc, char **argv);
} webmail_verb;

static const webmail_verb verbs[] = {
	{"user", users_main}, {"import", import_main}, {"check", check_main}, {NULL, NULL}};

/* The folder has to be there before the configuration is checked. Only its owner may look into it. */
static void make_folder(int argc, char **argv)
{
	for (int i = 1; i < argc && argv[i] != NULL; i++) {
		const char *folder = strncmp(argv[i], "--data=", 7) == 0              ? argv[i] + 7
				     : strcmp(argv[i], "--data") == 0 && i + 1 < argc ? argv[i + 1]
										      : NULL;
		if (folder != NULL && mkdir(folder, 0700) != 0 && errno != EEXIST)
			fprintf(stderr, "weir-webmail: %s: %s\n", folder, strerror(errno));
	}
}

int main(int argc, char **argv)
{
	if (sodium_init() < 0) {
		fprintf(stderr, "weir-webmail: there are no random numbers\n");
		return 1;
	}
	mail_init();
	for (const webmail_verb *verb = verbs; argc > 1 && verb->name != NULL; verb++)
		if (strcmp(argv[1], verb->name) == 0)
			return verb->run(argc - 1, argv + 1);
	make_folder(argc, argv);
	return weir_service_main(&program, argc, argv);
}
