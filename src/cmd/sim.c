/* SPDX-License-Identifier: Apache-2.0 */
/* `weir sim`: runs a scenario in a virtual world, under one law or several, and judges the control. */

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cmd/verb.h"
#include "sim/report.h"

enum { CASES = 32, SETS = 32, SEEDS = 1000 };

typedef struct sim_options {
	const char *scenario, *plot, *law;
	const char *set[SETS];
	unsigned sets;
	char *compare; /* a copy, cut at its commas */
	const char *label[CASES];
	unsigned cases;
	uint32_t seed, seeds; /* seed 0: the scenario's */
	bool json, csv, list, laws;
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
	int failed = weir_scenario_read(path, &text, &size);
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
	for (unsigned i = 0; i < options->sets && !failed; i++)
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
	unsigned count = options->cases > 0 ? options->cases : 1;
	int failed = 0;
	memset(cases, 0, sizeof cases);
	for (unsigned i = 0; i < count && !failed; i++)
		failed = prepare(options, text, size, options->cases > 0 ? options->label[i] : options->law,
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
	if (weir_scenario_read(options->scenario, &text, &size) < 0)
		return complain();
	int status = run_cases(options, text, size);
	weir_mem_free(text);
	return status;
}

/* ---- options ---- */

static int wrong_option(const char *what, const char *value)
{
	fprintf(stderr, "weir sim: %s%s; see 'weir sim --help'\n", what, value);
	return WEIR_EXIT_USAGE;
}

static int read_count(const char *text, uint32_t most, const char *option, uint32_t *ret_count)
{
	if (weir_text_count(text, ret_count) == 0 && *ret_count >= 1 && *ret_count <= most)
		return WEIR_EXIT_OK;
	fprintf(stderr, "weir sim: %s must be a whole number from 1 to %u, not '%s'\n", option, most, text);
	return WEIR_EXIT_USAGE;
}

static int read_compare(const char *text, sim_options *options)
{
	free(options->compare);
	options->compare = strdup(text);
	options->cases = 0;
	char *rest, *law = options->compare == NULL ? NULL : strtok_r(options->compare, ",", &rest);
	for (; law != NULL; law = strtok_r(NULL, ",", &rest)) {
		if (options->cases == CASES)
			return wrong_option("too many laws: ", text);
		options->label[options->cases++] = law;
	}
	return options->cases > 0 ? WEIR_EXIT_OK : wrong_option("--compare needs laws: aimd,adaptive", "");
}

enum { LAW = 1, SET, COMPARE, SEED, SEED_COUNT, PLOT, JSON, CSV, LIST, LAWS };

static const struct option long_options[] = {
	{"law", required_argument, NULL, LAW},
	{"set", required_argument, NULL, SET},
	{"compare", required_argument, NULL, COMPARE},
	{"seed", required_argument, NULL, SEED},
	{"seeds", required_argument, NULL, SEED_COUNT},
	{"plot", required_argument, NULL, PLOT},
	{"json", no_argument, NULL, JSON},
	{"csv", no_argument, NULL, CSV},
	{"list", no_argument, NULL, LIST},
	{"laws", no_argument, NULL, LAWS},
	{NULL, 0, NULL, 0},
};

static int read_option(int option, const char *value, sim_options *options)
{
	switch (option) {
	case LAW:
		options->law = value;
		return WEIR_EXIT_OK;
	case SET:
		if (options->sets == SETS)
			return wrong_option("too many --set", "");
		options->set[options->sets++] = value;
		return WEIR_EXIT_OK;
	case COMPARE:
		return read_compare(value, options);
	case SEED:
		return read_count(value, UINT32_MAX, "--seed", &options->seed);
	case SEED_COUNT:
		return read_count(value, SEEDS, "--seeds", &options->seeds);
	case PLOT:
		options->plot = value;
		return WEIR_EXIT_OK;
	case JSON:
		options->json = true;
		return WEIR_EXIT_OK;
	case CSV:
		options->csv = true;
		return WEIR_EXIT_OK;
	case LIST:
		options->list = true;
		return WEIR_EXIT_OK;
	default:
		options->laws = true;
		return WEIR_EXIT_OK;
	}
}

static int read_options(int argc, char **argv, sim_options *options)
{
	int option;
	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
		if (option == '?')
			return weir_verb_unexpected(&weir_verb_sim, argv[optind - 1]);
		if (option == ':')
			return wrong_option("a value is missing after ", argv[optind - 1]);
		int status = read_option(option, optarg, options);
		if (status != WEIR_EXIT_OK)
			return status;
	}
	if (optind < argc)
		options->scenario = argv[optind++];
	if (optind < argc)
		return weir_verb_unexpected(&weir_verb_sim, argv[optind]);
	if (options->json && options->csv)
		return wrong_option("--json and --csv exclude each other", "");
	if (options->law != NULL && options->cases > 0)
		return wrong_option("--law and --compare exclude each other", "");
	return WEIR_EXIT_OK;
}

static int act(const sim_options *options)
{
	if (options->laws) {
		weir_report_laws(stdout);
		return WEIR_EXIT_OK;
	}
	if (options->list)
		return list_scenarios(options->scenario != NULL ? options->scenario : "lab/sim");
	if (options->scenario == NULL)
		return wrong_option("name a scenario, or --list, or --laws", "");
	return run_scenario(options);
}

static int run(int argc, char **argv)
{
	sim_options options = {.seeds = 1};
	int status = read_options(argc, argv, &options);
	if (status == WEIR_EXIT_OK)
		status = act(&options);
	free(options.compare);
	return status;
}

const weir_verb weir_verb_sim = {
	.name = "sim",
	.summary = "runs a scenario in a virtual world and judges the law that controls it",
	.usage =
		"usage: weir sim [OPTION...] SCENARIO\n"
		"       weir sim --list [FOLDER]\n"
		"       weir sim --laws\n\n"
		"Runs a scenario (docs/sim.md describes the files; lab/sim has many) under a virtual clock, "
		"in\n"
		"seconds or less, and shows what was offered, shed and completed, response times against "
		"the\n"
		"target, how fast and how steadily the law held it, and what work was for nothing. The same\n"
		"scenario and seed give the same output.\n\n"
		"  --law LAW            instead of the law of every stage that has a line for one; none: no "
		"law\n"
		"  --compare LAW,...    the same under each of these laws, a row each\n"
		"  --set NAME.KEY=VALUE a setting of a stage, backend, type or load, or of 'scenario'; again "
		"for more\n"
		"  --seed N             instead of the scenario's\n"
		"  --seeds N            as many runs, with seeds from that on: the mean and the worst\n"
		"  --plot FILE          writes an SVG as well\n"
		"  --json               everything as JSON, instead of the table\n"
		"  --csv                over time, a row for each window, instead of the table\n"
		"  --list [FOLDER]      the scenarios in a folder (lab/sim) and their titles\n"
		"  --laws               the laws and their parameters\n",
	.run = run,
};
