/* SPDX-License-Identifier: Apache-2.0 */
/* `weir uplink`: priority queues on an uplink, so that what is nearly finished is sent first. */
#include "uplink/uplink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cmd/verb.h"
#include "keys/bitrate.h"
#include "net/cutoffs.h"

/* ---- what can be written ---- */

typedef struct uplink_arguments {
	const char *action, *device;
	uint64_t rate;
	unsigned bands, form;
	const char *folder;
	bool force;
} uplink_arguments;

static const char *const band_words[] = {"5", "8", NULL};
static const unsigned band_counts[] = {WEIR_CUTOFFS_FIXED, WEIR_CUTOFFS_ADAPTING};
static const char *const form_words[] = {"auto", "prio", "htb", NULL}; /* as weir_uplink_form */

#define ROW(key, is, member, ...) WEIR_KEY(key, is, uplink_arguments, member, __VA_ARGS__)

static const weir_key keys[] = {
	ROW("rate", FORM, rate, NULL, "What the uplink carries: 10mbit, 1gbit, 1.5MB/s; needed to install",
	    .form = &weir_bitrate_form, .min = (double)WEIR_UPLINK_RATE_LEAST,
	    .max = (double)WEIR_UPLINK_RATE_MOST, .value = "R"),
	ROW("bands", CHOICE, bands, "5",
	    "The bands: 5 with fixed cutoffs, or 8 that follow the answers' sizes", .words = band_words,
	    .value = "5|8"),
	ROW("scheduler", CHOICE, form, "auto", "What orders the bands; auto: prio if the kernel has it",
	    .words = form_words, .value = "auto|prio|htb"),
	ROW("force", SWITCH, force, NULL, "Installs it on a loopback device, too"),
	ROW("state", TEXT, folder, WEIR_UPLINK_STATE_FOLDER, "The folder that keeps what was there before",
	    .value = "DIR"),
	{0}};

static const weir_options table = {
	.program = "weir uplink",
	.about = "usage: weir uplink install DEV --rate R [OPTION...]\n"
		 "       weir uplink show [DEV]\n"
		 "       weir uplink remove DEV\n\n"
		 "Installs priority queues on the device that leads to the clients, at 98 % of its rate. A "
		 "server\n"
		 "sets the priority of its sockets by the bytes that are left of their answers; those with "
		 "few left\n"
		 "are then sent first. Other traffic is guaranteed half of the rate. Changing needs "
		 "CAP_NET_ADMIN.\n",
	.groups = (const weir_option_group[]){{NULL, keys}, {NULL, NULL}},
	.more = "remove restores what was there before. The queues are the kernel's: no process has to run, "
		"and\n"
		"they end with a reboot.\n",
};

static int failed(void)
{
	fprintf(stderr, "weir uplink: %s\n", weir_error());
	return WEIR_EXIT_FAILED;
}

/* ---- showing ---- */

static void show_row(const char *name, const char *priorities, const weir_kernel_qdisc *queue)
{
	printf("  %-6s %-14s %12" PRIu64 " %16" PRIu64 " %10" PRIu32 " %9" PRIu32 "\n", name, priorities,
	       queue->packets, queue->bytes, queue->dropped, queue->waiting);
}

static void show_bands(const weir_uplink_view *view)
{
	char name[8], priorities[32];
	printf("  %-6s %-14s %12s %16s %10s %9s\n", "band", "SO_PRIORITY", "packets", "bytes", "dropped",
	       "waiting");
	for (unsigned band = 0; band < view->bands; band++) {
		uint32_t class_id = (uint32_t)weir_band_class(band);
		int length = snprintf(priorities, sizeof(priorities), "0x%" PRIx32, class_id);
		if (view->plain && band < WEIR_BAND_PLAIN_MOST)
			snprintf(priorities + length, sizeof(priorities) - (size_t)length, ", %d",
				 weir_band_plain(band));
		snprintf(name, sizeof(name), "%u", band);
		show_row(name, priorities, &view->band[band]);
	}
	show_row("other", "0", &view->other);
}

static void show_view(const weir_uplink_view *view, void *arg)
{
	char rate[32];
	printf("%s: ", view->link.name);
	if (view->owner == WEIR_UPLINK_FOREIGN)
		printf("shaped by somebody else: its root is '%s'\n", view->kind);
	else if (view->owner == WEIR_UPLINK_DEFAULT)
		printf("not installed; its root is the default%s%s\n", view->kind[0] != '\0' ? ", " : "",
		       view->kind);
	if (view->owner != WEIR_UPLINK_OURS)
		return;
	printf("installed by weir%s, %u bands (%s), sends at %s, segments of at most %" PRIu32 " bytes\n",
	       view->complete ? "" : ", but not to the end: install or remove it again", view->bands,
	       view->prio ? "prio" : "htb", weir_bitrate_print(rate, sizeof(rate), view->shaped),
	       view->link.gso.size);
	if (!view->plain)
		puts("  the priorities 1 to 6 choose no band: there is no filter of the kind bpf");
	show_bands(view);
}

static int show(const uplink_arguments *a)
{
	weir_uplink_view view;
	if (a->device == NULL) {
		int count = weir_uplink_each(show_view, NULL);
		if (count == 0)
			puts("weir has installed nothing on any device");
		return count < 0 ? failed() : WEIR_EXIT_OK;
	}
	if (weir_uplink_look(a->device, &view) != 0)
		return failed();
	show_view(&view, NULL);
	return WEIR_EXIT_OK;
}

/* ---- changing ---- */

static int install(const uplink_arguments *a)
{
	const weir_uplink_options options = {.device = a->device,
					     .folder = a->folder,
					     .rate = a->rate,
					     .bands = band_counts[a->bands],
					     .form = (weir_uplink_form)a->form,
					     .loopback = a->force};
	weir_uplink_done done;
	if (a->rate == 0)
		return weir_options_wrong(&table, "install: give the uplink's rate: --rate 10mbit");
	if (weir_uplink_install(&options, &done) != 0)
		return failed();
	if (done.already)
		printf("%s: already installed like this\n", a->device);
	if (done.gso_failed)
		fprintf(stderr,
			"weir uplink: %s: the kernel does not limit segments (GSO); large ones will delay "
			"small "
			"answers\n",
			a->device);
	if (done.guessed)
		fprintf(stderr, "weir uplink: %s: the limit of segments from before is not known\n",
			a->device);
	show(a); /* that it is installed is no less true if it cannot be shown */
	return WEIR_EXIT_OK;
}

static int take_away(const uplink_arguments *a)
{
	weir_uplink_done done;
	if (weir_uplink_remove(a->device, a->folder, &done) != 0)
		return failed();
	if (done.foreign)
		printf("%s: its root is somebody else's and stays\n", a->device);
	else if (done.already)
		printf("%s: nothing of weir's is installed\n", a->device);
	else
		printf("%s: removed\n", a->device);
	if (done.guessed)
		fprintf(stderr,
			"weir uplink: %s: what was there before is not known; segments have the usual limit "
			"now\n",
			a->device);
	return WEIR_EXIT_OK;
}

/* ---- the command line ---- */

typedef struct uplink_action {
	const char *name;
	int (*run)(const uplink_arguments *a);
} uplink_action;

static const uplink_action actions[] = {
	{"install", install}, {"show", show}, {"remove", take_away}, {NULL, NULL}};

static const char *action_at(const void *list, size_t at)
{
	return actions[at].name;
}

static int run_action(const uplink_arguments *a)
{
	for (const uplink_action *action = actions; action->name != NULL; action++)
		if (strcmp(action->name, a->action) == 0)
			return action->run(a);
	char quoted[32];
	const char *near = weir_text_nearest(a->action, action_at, NULL);
	return weir_options_wrong(&table, "'%s': write %s",
				  weir_text_quote(quoted, sizeof(quoted), a->action),
				  near != NULL ? near : "install, show or remove");
}

static int take_word(uplink_arguments *a, const char *word)
{
	const char **to = a->action == NULL ? &a->action : &a->device;
	if (word[0] == '-' || *to != NULL)
		return weir_verb_unexpected(&weir_verb_uplink, word);
	*to = word;
	return WEIR_EXIT_OK;
}

static int run(int argc, char **argv)
{
	uplink_arguments a = {0};
	int status = weir_options_read(&table, &a, NULL, 1, argv, NULL); /* the defaults */
	for (int at = 1; status == WEIR_EXIT_OK && at < argc;) {
		int used = weir_option_take(&table, &a, NULL, argc - at, argv + at);
		status = used == 0 ? take_word(&a, argv[at]) : used < 0 ? WEIR_EXIT_USAGE : status;
		at += used > 0 ? used : 1;
	}
	if (status != WEIR_EXIT_OK)
		return status;
	if (a.action == NULL)
		return weir_options_wrong(&table, "write install, show or remove, and a device");
	if (a.device == NULL && strcmp(a.action, "show") != 0)
		return weir_options_wrong(
			&table, "%s: give the device that leads to the clients, such as eth0", a.action);
	return run_action(&a);
}

const weir_verb weir_verb_uplink = {
	.name = "uplink",
	.summary = "installs priority queues on an uplink, and removes them",
	.options = &table,
	.run = run,
};
