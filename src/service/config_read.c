/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: the text is scanned for names and blocks (config_scan.c), libconfuse parses it, being told to expect exactly those names, each as a list of texts, and hands every
 * value over with its line; the tables say what it means. So an unknown key or a bad value is one message among others, and only
 * broken syntax ends a file.
 *
 * An included file is parsed by a parser of its own, from within the call. Parsers are freed when the outermost is done, since freeing one frees libconfuse's lexer.
 */
#include <confuse.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "service/config_inside.h"
#include "service/config_scan.h"
#include "service/confine.h"

#define INCLUDES_MAX 8 /* within each other */
#define FILES_MAX    256
#define NAME_BYTES   64
#define QUOTE_BYTES  64

/* One file that is being parsed. */
typedef struct source {
	struct source *outer;
	weir_config *config;
	const char *name;
	unsigned *opening; /* lines in which its blocks begin, in order */
	unsigned openings, closed;
	const weir_config_block *block; /* of the one that is open; NULL: its kind is not known */
	weir_config_head *head;         /* NULL: nothing in it has been seen yet, or nothing is to be kept */
	bool entered;
	bool failed;
	cfg_t *parser;
	cfg_opt_t *options, *root;
	const char **names;
	unsigned name_count;
} source;

/* libconfuse's calls have no argument of ours. */
static source *current;
static cfg_t *finished[FILES_MAX];
static unsigned finished_count, depth;

/* ---- what libconfuse calls ---- */

static void unknown_block(source *s, const char *name, weir_config_place place)
{
	char quoted[QUOTE_BYTES];
	weir_text_quote(quoted, sizeof(quoted), name);
	const char *near = weir_text_nearest(name, weir_config_block_name_at, NULL);
	if (near != NULL)
		weir_config_wrong(s->config, place, "there is no block '%s'; did you mean '%s'?", quoted,
				  near);
	else
		weir_config_wrong(s->config, place,
				  "there is no block '%s'; 'weir check --list' lists those there are",
				  quoted);
}

/* The first thing that is heard of a block: its first value, or its end. */
static void enter(source *s, const char *name, const char *title, int line)
{
	unsigned begins = s->closed < s->openings ? s->opening[s->closed] : (unsigned)line;
	weir_config_place place = {s->name, begins};
	s->entered = true;
	s->head = NULL;
	s->block = weir_config_block_find(name);
	if (s->block == NULL)
		unknown_block(s, name, place);
	else if (s->config->blocks++ == WEIR_CONFIG_BLOCKS_MAX)
		weir_config_wrong(s->config, place, "more than %d blocks", WEIR_CONFIG_BLOCKS_MAX);
	else if (s->config->blocks <= WEIR_CONFIG_BLOCKS_MAX)
		s->head = weir_config_add(s->config, s->block, title, place);
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
	source *s = current;
	weir_config_place place = {s->name, (unsigned)cfg->line};
	bool first = opt->nvalues == 1;
	*(void **)result = NULL;
	if (cfg == s->parser) {
		char quoted[QUOTE_BYTES];
		if (first)
			weir_config_wrong(s->config, place,
					  "'%s' is outside of any block; keys belong into blocks, as log { "
					  "access = - }",
					  weir_text_quote(quoted, sizeof(quoted), opt->name));
		return 0;
	}
	if (!s->entered)
		enter(s, cfg->name, cfg->title, cfg->line);
	if (s->head != NULL)
		weir_config_set(s->config, s->block, s->head, opt->name, value, place, first);
	return 0;
}

/* The section that has just been read: the last one that ends in this line. */
static const cfg_t *section_of(cfg_t *cfg, cfg_opt_t *opt)
{
	for (unsigned i = opt->nvalues; i-- > 0;)
		if (opt->values[i]->section->line == cfg->line)
			return opt->values[i]->section;
	return opt->nvalues > 0 ? opt->values[opt->nvalues - 1]->section : NULL;
}

static int on_end(cfg_t *cfg, cfg_opt_t *opt)
{
	source *s = current;
	const cfg_t *section = section_of(cfg, opt);
	if (!s->entered)
		enter(s, opt->name, section != NULL ? section->title : NULL, cfg->line);
	s->entered = false;
	s->closed++;
	return 0;
}

/* libconfuse's sentences by what they begin with, and ours. */
static const struct {
	const char *theirs, *ours;
} sentences[] = {
	{"missing equal sign after", "'%s' needs an equal sign and a value: %s = ..."},
	{"missing opening brace for", "'%s' needs a { here, after its title if it has one"},
	{"missing title for", "'%s' needs a title before its {: %s \"...\" {"},
	{"missing parenthesis for", "'%s' needs its file in parentheses: %s(\"other.conf\")"},
	{"syntax error in call of", "'%s' takes one file in quotes: %s(\"other.conf\")"},
	{"no such option", NULL},
	{"unexpected token", "'%s' is not expected here; is a value, a comma or a quote missing before it?"},
	{"premature end of file", "the file ends in the middle of something; is a value or a } missing?"},
};

/* A name that stands where none of its kind may. */
static void misplaced(source *s, const cfg_t *cfg, const char *name, weir_config_place place)
{
	if (cfg == s->parser)
		weir_config_wrong(s->config, place,
				  "'%s' is not expected here; write a block, as log { access = - }, or "
				  "include(\"FILE\")",
				  name);
	else
		weir_config_wrong(s->config, place,
				  "'%s' is not expected within %s, which takes keys: NAME = VALUE; is a } "
				  "missing before it?",
				  name, cfg->name);
}

static void say(source *s, const cfg_t *cfg, const char *format, const char *argument)
{
	weir_config_place place = {s->name, (unsigned)cfg->line};
	char quoted[QUOTE_BYTES];
	weir_text_quote(quoted, sizeof(quoted), argument);
	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		if (strncmp(format, sentences[i].theirs, strlen(sentences[i].theirs)) != 0)
			continue;
		if (sentences[i].ours == NULL) {
			misplaced(s, cfg, quoted, place);
			return;
		}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
		weir_config_wrong(s->config, place, sentences[i].ours, quoted, quoted);
#pragma GCC diagnostic pop
		return;
	}
	weir_config_wrong(s->config, place, "the syntax is wrong near '%s'", quoted);
}

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	const char *argument = strstr(format, "%s") != NULL ? va_arg(args, const char *) : "";
	current->failed = true;
	say(current, cfg, format, argument);
}

static void read_file(weir_config *config, const char *path, weir_config_place place);

static bool is_open(const source *s, const char *path)
{
	for (; s != NULL; s = s->outer)
		if (strcmp(s->name, path) == 0)
			return true;
	return false;
}

/* include("FILE"), relative to the folder of the file that has it. */
static int on_include(cfg_t *cfg, cfg_opt_t *opt, int argc, const char **argv)
{
	source *s = current;
	weir_config_place place = {s->name, (unsigned)cfg->line};
	char path[4096];
	if (argc != 1 || argv[0][0] == '\0') {
		weir_config_wrong(s->config, place, "include takes one file: include(\"other.conf\")");
		return 0;
	}
	const char *slash = argv[0][0] != '/' ? strrchr(s->name, '/') : NULL;
	int folder = slash != NULL ? (int)(slash - s->name) + 1 : 0;
	int length = snprintf(path, sizeof(path), "%.*s%s", folder, s->name, argv[0]);
	if (length >= (int)sizeof(path))
		weir_config_wrong(s->config, place, "include: the name of the file is too long");
	else if (is_open(s, path))
		weir_config_wrong(s->config, place, "include: %s includes itself", path);
	else if (depth >= INCLUDES_MAX)
		weir_config_wrong(s->config, place, "include: more than %d files within each other",
				  INCLUDES_MAX);
	else
		read_file(s->config, path, place);
	return 0;
}

/* ---- what it is told to expect ---- */

static bool known_name(const source *s, const char *name)
{
	for (unsigned i = 0; i < s->name_count; i++)
		if (strcmp(s->names[i], name) == 0)
			return true;
	return false;
}

static void add_name(source *s, const char *name)
{
	void *array = s->names;
	if (known_name(s, name))
		return;
	const char **place = weir_config_grow(s->config, &array, &s->name_count, sizeof(*place));
	s->names = array;
	if (place != NULL && (*place = weir_config_copy(s->config, name)) == NULL)
		s->name_count--;
}

static const char *token_text(weir_config *config, const weir_config_token *token)
{
	char *text = weir_config_alloc(config, token->length + 1);
	if (text != NULL)
		memcpy(text, token->at, token->length);
	return text;
}

/* Names of values: words before an equal sign that no table has. */
static bool find_names(source *s, const weir_config_tokens *tokens)
{
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++)
		for (const weir_config_key *key = block->keys; key->name != NULL; key++)
			add_name(s, key->name);
	for (unsigned i = 0; i + 1 < tokens->count; i++) {
		const weir_config_token *token = &tokens->token[i];
		if (token->kind == WEIR_TOKEN_SIGN || token->length >= NAME_BYTES)
			continue;
		if (weir_config_token_is(tokens, i + 1, '=') || weir_config_token_is(tokens, i + 1, '+')) {
			const char *name = token_text(s->config, token);
			if (name == NULL)
				return false;
			add_name(s, name);
		}
		if (s->name_count > 1024) {
			weir_config_wrong(s->config, (weir_config_place){s->name, token->line},
					  "too many different names");
			return false;
		}
	}
	return !s->config->out_of_memory;
}

/* The words from which the block whose { is the at-th token begins: 1 or, with a title, 2; 0: it is a list. */
static unsigned words_before(const weir_config_tokens *tokens, unsigned at)
{
	if (at < 1 || tokens->token[at - 1].kind == WEIR_TOKEN_SIGN)
		return 0;
	return at >= 2 && tokens->token[at - 2].kind == WEIR_TOKEN_WORD ? 2 : 1;
}

static void add_option(cfg_opt_t *options, unsigned *count, cfg_opt_t option)
{
	options[(*count)++] = option;
	options[*count] = (cfg_opt_t)CFG_END();
}

static bool has_option(const cfg_opt_t *options, const char *name)
{
	for (; options->name != NULL; options++)
		if (strcmp(options->name, name) == 0)
			return true;
	return false;
}

static void add_section(source *s, unsigned *count, const char *name, bool titled)
{
	cfg_opt_t section = CFG_SEC(name, s->options, CFGF_MULTI);
	if (titled)
		section.flags |= CFGF_TITLE;
	section.validcb = on_end;
	add_option(s->root, count, section);
}

/* Blocks at the top: where they begin, and those that no table has. "root" is what libconfuse calls the top itself. */
static bool find_blocks(source *s, const weir_config_tokens *tokens, unsigned *count)
{
	unsigned level = 0, unknown = 0;
	for (unsigned i = 0; i < tokens->count; i++) {
		if (weir_config_token_is(tokens, i, '}'))
			level--;
		if (!weir_config_token_is(tokens, i, '{') || level++ != 0)
			continue;
		unsigned words = words_before(tokens, i);
		if (words == 0)
			continue;
		const weir_config_token *token = &tokens->token[i - words];
		void *array = s->opening;
		unsigned *begins = weir_config_grow(s->config, &array, &s->openings, sizeof(*begins));
		s->opening = array;
		const char *name = token_text(s->config, token);
		if (begins == NULL || name == NULL)
			return false;
		*begins = token->line;
		if (!has_option(s->root, name) && strcmp(name, "root") != 0 && unknown++ < 64)
			add_section(s, count, name, words == 2);
	}
	return true;
}

static bool make_options(source *s, const weir_config_tokens *tokens)
{
	unsigned count = 0;
	if (!find_names(s, tokens))
		return false;
	s->options = weir_mem_array(s->name_count + 1, sizeof(cfg_opt_t));
	s->root = weir_mem_array(s->name_count + 128, sizeof(cfg_opt_t));
	if (s->options == NULL || s->root == NULL)
		return false;
	for (unsigned i = 0; i < s->name_count; i++)
		add_option(s->options, &count,
			   (cfg_opt_t)CFG_PTR_LIST_CB(s->names[i], NULL, CFGF_NONE, on_value, NULL));
	count = 0;
	add_option(s->root, &count, (cfg_opt_t)CFG_FUNC("include", on_include));
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++)
		add_section(s, &count, block->name, block->title != NULL);
	if (!find_blocks(s, tokens, &count))
		return false;
	for (unsigned i = 0; i < s->name_count; i++)
		if (!has_option(s->root, s->names[i]))
			add_option(s->root, &count, s->options[i]);
	return true;
}

/* ---- files ---- */

static void run_parser(source *s, FILE *file)
{
	cfg_set_error_function(s->parser, on_error);
	s->outer = current;
	current = s;
	if (cfg_parse_fp(s->parser, file) != CFG_SUCCESS && !s->failed)
		weir_config_wrong(s->config, (weir_config_place){s->name, (unsigned)s->parser->line},
				  "the syntax is wrong here");
	current = s->outer;
}

static void parse(source *s, char *text, size_t length)
{
	if (finished_count == FILES_MAX) {
		weir_config_wrong(s->config, (weir_config_place){s->name, 0}, "more than %d files",
				  FILES_MAX);
		return;
	}
	FILE *file = fmemopen(text, length, "r");
	s->parser = cfg_init(s->root, CFGF_NONE);
	if (s->parser != NULL)
		finished[finished_count++] = s->parser;
	if (file != NULL && s->parser != NULL)
		run_parser(s, file);
	else
		s->config->out_of_memory = true;
	if (file != NULL)
		fclose(file);
}

/* text: ended by a NUL beyond its length, and changed. */
static void read_source(weir_config *config, const char *name, char *text, size_t length)
{
	source s = {.config = config, .name = weir_config_copy(config, name)};
	weir_config_tokens tokens;
	if (s.name == NULL)
		return;
	depth++;
	if (weir_config_scan(config, s.name, text, length, &tokens) && tokens.count > 0 &&
	    make_options(&s, &tokens))
		parse(&s, text, length);
	weir_mem_free(s.options);
	weir_mem_free(s.root);
	if (--depth > 0)
		return;
	while (finished_count > 0)
		cfg_free(finished[--finished_count]);
}

static void note_file(weir_config *config, const char *path)
{
	void *array = config->file_read;
	const char **noted = weir_config_grow(config, &array, &config->files_read, sizeof(*noted));
	config->file_read = array;
	if (noted != NULL && (*noted = weir_config_copy(config, path)) == NULL)
		config->files_read--;
}

/* place: where the file is asked for, and so where a message about it belongs. Bytes beyond the bound are not read. */
static void read_file(weir_config *config, const char *path, weir_config_place place)
{
	char *text = weir_mem_zalloc(WEIR_CONFIG_BYTES_MAX + 1);
	struct stat status;
	FILE *file = text != NULL ? fopen(path, "re") : NULL;
	int failed = text == NULL ? -ENOMEM : file == NULL ? -errno : 0;
	if (failed == 0 && fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
		failed = -EISDIR;
	size_t length = 0;
	if (failed == 0) {
		length = fread(text, 1, WEIR_CONFIG_BYTES_MAX + 1, file);
		failed = ferror(file) ? -EIO : 0;
	}
	if (failed == -EACCES && weir_confine_hides(path))
		weir_config_wrong(config, place, "%s " WEIR_CONFINE_HIDES, path);
	else if (failed != 0)
		weir_config_wrong(config, place, "%s: %s", path, strerror(-failed));
	else if (length > WEIR_CONFIG_BYTES_MAX)
		weir_config_wrong(config, place, "%s: longer than 1MB; is it a configuration?", path);
	else
		read_source(config, path, text, length);
	if (failed == 0)
		note_file(config, path);
	if (file != NULL)
		fclose(file);
	weir_mem_free(text);
}

static int result(const weir_config *config)
{
	if (config->out_of_memory)
		return weir_error_set(-ENOMEM, "out of memory");
	if (config->errors > 0)
		return weir_error_set(-EINVAL, "the configuration has errors");
	return 0;
}

int weir_config_read(weir_config *config, const char *path)
{
	read_file(config, path, (weir_config_place){0});
	return result(config);
}

int weir_config_read_text(weir_config *config, const char *name, const char *text, size_t length)
{
	char *copy = length <= WEIR_CONFIG_BYTES_MAX ? weir_mem_zalloc(length + 1) : NULL;
	if (copy == NULL)
		return weir_error_set(-ENOMEM, "%s: out of memory, or longer than 1MB", name);
	memcpy(copy, text, length);
	read_source(config, name, copy, length);
	weir_mem_free(copy);
	return result(config);
}
