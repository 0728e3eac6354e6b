/* SPDX-License-Identifier: Apache-2.0 */
/* `weir sim`: runs a scenario in a virtual world, under one law or several, and judges the control. */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "cmd/verb.h"
#include "sim/keys.h"
#include "sim/report.h"

enum { CASES = 32, SETS = 32, SEEDS = 1000 };

/* Laws to compare. */
typedef struct sim_laws {
	char text[512]; /* cut at its commas */
	const char *at[CASES];
	unsigned count;
} sim_laws;

typedef struct sim_options {
	const char *scenario, *plot, *law;
	const char *const *set;
	sim_laws compare;
	uint32_t seed, seeds; /* seed 0: the scenario's */
	bool json, csv, list, laws, keys, markdown;
	weir_key_arena memory;
} sim_options;

/* One case; its scenario lives as long as its runs. */
typedef struct sim_case {
	weir_scenario *scenario;
	weir_run **run;
	unsigned runs;
	char label[80];
} sim_case;

/* ---- the list ---- */

static int is_scenario(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);
	return length > 4 && strcmp(entry->d_name + length - 4, ".sim") == 0;
}

/* Prints the title of a scenario or, if it is wrong, the error. */
static void print_scenario(const char *path)
{
	char *text;
	size_t size;
	weir_scenario *scenario = NULL;
	int failed = weir_sections_file(path, WEIR_SECTION_TEXT_MAX, &text, &size);
	if (!failed) {
		failed = weir_scenario_parse(path, text, size, &scenario);
		weir_mem_free(text);
	}
	printf("%-36s %s\n", path, failed ? weir_error() : scenario->title);
	weir_scenario_free(&scenario);
}

static int list_scenarios(const char *folder)
{
	struct dirent **entries;
	char path[1024];
	int count = scandir(folder, &entries, is_scenario, alphasort);
	if (count < 0) {
		fprintf(stderr, "weir sim: %s: %s; name a folder with *.sim files\n", folder,
			strerror(errno));
		return WEIR_EXIT_USAGE;
	}
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
		print_scenario(path);
		free(entries[i]);
	}
	free(entries);
	return WEIR_EXIT_OK;
}

/* ---- runs ---- */

static int complain(void)
{
	fprintf(stderr, "weir sim: %s\n", weir_error());
	return WEIR_EXIT_USAGE;
}

/* "aimd"; "laws as written" for a scenario with several; or "no law". */
static void name_case(sim_case *of, const char *law)
{
	const char *found = NULL;
	for (unsigned i = 0; i < of->scenario->stages && law == NULL; i++) {
		const char *own = of->scenario->stage[i].law;
		if (own[0] == '\0')
			continue;
		found = found == NULL || strcmp(found, own) == 0 ? own : "laws as written";
	}
	snprintf(of->label, sizeof of->label, "%s", law != NULL ? law : found != NULL ? found : "no law");
}

static int prepare(const sim_options *options, const char *text, size_t size, const char *law,
		   sim_case *ret_case)
{
	int failed = weir_scenario_parse(options->scenario, text, size, &ret_case->scenario);
	if (!failed && law != NULL)
		failed = weir_scenario_law(ret_case->scenario, law);
	for (unsigned i = 0; options->set != NULL && options->set[i] != NULL && !failed; i++)
		failed = weir_scenario_set(ret_case->scenario, options->set[i]);
	if (!failed)
		failed = weir_scenario_check(ret_case->scenario);
	if (!failed)
		name_case(ret_case, law);
	return failed;
}

static int run_case(const sim_options *options, sim_case *of)
{
	uint64_t seed = options->seed != 0 ? options->seed : of->scenario->seed;
	of->run = calloc(options->seeds, sizeof(*of->run));
	if (of->run == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < options->seeds; i++) {
		int failed = weir_run_new(of->scenario, seed + i, of->label, &of->run[i]);
		if (failed)
			return failed;
		of->runs++;
	}
	return 0;
}

static void free_cases(sim_case *cases, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = 0; j < cases[i].runs; j++)
			weir_run_free(&cases[i].run[j]);
		free(cases[i].run);
		weir_scenario_free(&cases[i].scenario);
	}
}

static int write_plot(const char *path, const weir_case *cases, unsigned count)
{
	FILE *file = fopen(path, "w");
	if (file != NULL)
		weir_plot(file, cases, count);
	if (file != NULL && !ferror(file) && fclose(file) == 0)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir sim: %s: %s\n", path, strerror(errno));
	return WEIR_EXIT_FAILED;
}

static int show(const sim_options *options, const sim_case *of, unsigned count)
{
	weir_case cases[CASES];
	int status = WEIR_EXIT_OK;
	for (unsigned i = 0; i < count; i++)
		cases[i] = (weir_case){.label = of[i].label, .run = of[i].run, .runs = of[i].runs};
	if (options->csv)
		weir_report_csv(stdout, cases, count);
	else if (!options->json)
		weir_report_table(stdout, cases, count);
	else if (weir_report_json(stdout, cases, count) < 0)
		return complain();
	if (options->plot != NULL)
		status = write_plot(options->plot, cases, count);
	return status;
}

/* All are checked before the first one runs. */
static int run_cases(const sim_options *options, const char *text, size_t size)
{
	sim_case cases[CASES];
	unsigned count = options->compare.count > 0 ? options->compare.count : 1;
	int failed = 0;
	memset(cases, 0, sizeof cases);
	for (unsigned i = 0; i < count && !failed; i++)
		failed = prepare(options, text, size,
				 options->compare.count > 0 ? options->compare.at[i] : options->law,
				 &cases[i]);
	for (unsigned i = 0; i < count && !failed; i++)
		failed = run_case(options, &cases[i]);
	int status = failed ? complain() : show(options, cases, count);
	free_cases(cases, count);
	return status;
}

static int run_scenario(const sim_options *options)
{
	char *text;
	size_t size;
	if (weir_sections_file(options->scenario, WEIR_SECTION_TEXT_MAX, &text, &size) < 0)
		return complain();
	int status = run_cases(options, text, size);
	weir_mem_free(text);
	return status;
}

/* ---- options ---- */

/* "aimd,adaptive". */
static int read_laws(const weir_key *key, const char *text, void *ret_field)
{
	sim_laws *laws = ret_field;
	char *rest;
	if (strlen(text) >= sizeof laws->text)
		return weir_error_set(-EINVAL, "too many laws");
	memcpy(laws->text, text, strlen(text) + 1);
	laws->count = 0;
	for (char *law = strtok_r(laws->text, ",", &rest); law != NULL; law = strtok_r(NULL, ",", &rest)) {
		if (laws->count == CASES)
			return weir_error_set(-EINVAL, "too many laws; at most %d are accepted", CASES);
		laws->at[laws->count++] = law;
	}
	return laws->count > 0 ? 0 : weir_error_set(-EINVAL, "write laws as aimd,adaptive");
}

static const weir_key_form laws_form = {"laws", sizeof(sim_laws), read_laws};

#define ROW(key, is, member, written, otherwise, ...) \
	WEIR_KEY(key, is, sim_options, member, otherwise, __VA_ARGS__, .value = written)
#define FLAG(key, member, tells, ...) WEIR_KEY(key, SWITCH, sim_options, member, NULL, tells, __VA_ARGS__)

static const weir_key keys[] = {
	ROW("law", TEXT, law, "LAW", NULL,
	    "Replaces the law of every stage that has a line for one; none removes it"),
	ROW("compare", FORM, compare, "LAW,...", NULL,
	    "Runs the scenario under each of these laws: a row each", .form = &laws_form),
	ROW("set", TEXTS, set, "NAME.KEY=VALUE", NULL,
	    "Sets a key of a stage, backend, type or load, or of 'scenario'. It may be repeated",
	    .max = SETS),
	ROW("seed", COUNT, seed, "N", NULL, "The first seed. Without it: the scenario's", .min = 1,
	    .max = UINT32_MAX),
	ROW("seeds", COUNT, seeds, "N", "1", "Runs so many seeds: the mean and the worst are shown", .min = 1,
	    .max = SEEDS),
	ROW("plot", PATH, plot, "FILE", NULL, "Writes an SVG as well"),
	FLAG("json", json, "Prints everything as JSON instead of the table"),
	FLAG("csv", csv, "Prints a row for each window instead of the table"),
	FLAG("list", list, "Lists the scenarios in a folder (lab/sim) with their titles",
	     .value = "[FOLDER]"),
	FLAG("laws", laws, "Lists the laws and their parameters"),
	FLAG("keys", keys, "Explains the sections and keys of scenarios"),
	FLAG("markdown", markdown, "Prints all of them as docs/sim.md has them"),
	{0}};

static const weir_options table = {
	.program = "weir sim",
	.about = "usage: weir sim [OPTION...] SCENARIO\n"
		 "       weir sim --list [FOLDER]\n"
		 "       weir sim --laws | --keys | --markdown\n\n"
		 "Runs a scenario (docs/sim.md describes the files; lab/sim has many) under a virtual clock, "
		 "in\n"
		 "seconds or less. Shows what was offered, shed and completed, the response times against "
		 "the\n"
		 "target, how fast and how steadily the law held it, and how much work was wasted. The same\n"
		 "scenario and seed give the same output.\n",
	.groups = (const weir_option_group[]){{NULL, keys}, {NULL, NULL}},
};

static int act(const sim_options *options)
{
	if (options->json && options->csv)
		return weir_options_wrong(&table, "--json and --csv exclude each other");
	if (options->law != NULL && options->compare.count > 0)
		return weir_options_wrong(&table, "--law and --compare exclude each other");
	if (options->laws)
		weir_report_laws(stdout);
	else if (options->keys)
		weir_sections_explain(&weir_scenario_sections, stdout);
	else if (options->markdown)
		weir_sections_markdown(&weir_scenario_sections, stdout);
	else if (options->list)
		return list_scenarios(options->scenario != NULL ? options->scenario : "lab/sim");
	else if (options->scenario == NULL)
		return weir_options_wrong(&table, "name a scenario, or --list, or --laws");
	else
		return run_scenario(options);
	return WEIR_EXIT_OK;
}

static int run(int argc, char **argv)
{
	sim_options options = {0};
	weir_key_memory memory = weir_key_arena_memory(&options.memory);
	int status = weir_options_read(&table, &options, &memory, argc, argv, &options.scenario);
	if (status == WEIR_EXIT_OK)
		status = act(&options);
	weir_key_arena_free(&options.memory);
	return status;
}

const weir_verb weir_verb_sim = {
	.name = "sim",
	.summary = "runs a scenario in a virtual world and judges the law that controls it",
	.options = &table,
	.run = run,
};
