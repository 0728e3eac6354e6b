/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader. config_scan.c cuts the text into tokens, which are read as
 *
 *	file    = { block | "include" "(" value ")" }
 *	block   = NAME [ TITLE ] "{" { KEY ( "=" | "+=" ) values } "}"
 *	values  = value | "{" [ value { "," value } [ "," ] ] "}"
 *
 * The tables say what keys mean. An unknown block, an unknown key and a bad value become messages, and the
 * reader goes on. Only broken syntax ends a file.
 */
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
#define QUOTE_BYTES  64

/* A file that is being read. */
typedef struct config_reader {
	const struct config_reader *outer; /* the file that includes it */
	weir_config *config;
	const char *name;
	weir_config_tokens tokens;
	unsigned at;
	bool failed; /* broken syntax: nothing more is read */
} config_reader;

/* ---- tokens ---- */

static const weir_config_token *token(const config_reader *r)
{
	return r->at < r->tokens.count ? &r->tokens.token[r->at] : NULL;
}

static bool is_sign(const config_reader *r, unsigned ahead, char sign)
{
	return weir_config_token_is(&r->tokens, r->at + ahead, sign);
}

static bool is_value(const config_reader *r, unsigned ahead)
{
	unsigned at = r->at + ahead;
	return at < r->tokens.count && r->tokens.token[at].kind != WEIR_TOKEN_SIGN;
}

static weir_config_where where(const config_reader *r)
{
	const weir_config_tokens *tokens = &r->tokens;
	unsigned last = r->at < tokens->count ? r->at : tokens->count - 1;
	unsigned line = tokens->token != NULL ? tokens->token[last].line : 0;
	return (weir_config_where){r->name, line};
}

/* The text of a token, and on to the next one. NULL: out of memory. */
static const char *take(config_reader *r)
{
	return weir_config_token_text(r->config, &r->tokens.token[r->at++]);
}

/* ---- broken syntax ---- */

static void end_of_file(config_reader *r)
{
	weir_config_wrong_at(r->config, where(r),
			     "the file ends in the middle of something; is a value or a } missing?");
	r->failed = true;
}

static void broken(config_reader *r)
{
	char text[QUOTE_BYTES], quoted[QUOTE_BYTES];
	const weir_config_token *at = token(r);
	r->failed = true;
	if (at == NULL) {
		end_of_file(r);
		return;
	}
	snprintf(text, sizeof(text), "%.*s", (int)(at->length < sizeof(text) ? at->length : sizeof(text) - 1),
		 at->at);
	weir_config_wrong_at(r->config, where(r),
			     "'%s' is not expected here; is a value, a comma or a quote missing before it?",
			     weir_text_quote(quoted, sizeof(quoted), text));
}

/* Reports what is missing after a name; at the end of the file, reports that instead. */
static void lacks(config_reader *r, const char *format, const char *name)
{
	char quoted[QUOTE_BYTES];
	if (token(r) == NULL) {
		end_of_file(r);
		return;
	}
	weir_text_quote(quoted, sizeof(quoted), name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
	weir_config_wrong_at(r->config, where(r), format, quoted, quoted);
#pragma GCC diagnostic pop
	r->failed = true;
}

/* ---- values ---- */

typedef struct key {
	weir_block_head *head; /* NULL: the block is unknown, and the values are dropped */
	const char *name;
	bool adds; /* += */
} key;

static void set_value(config_reader *r, const key *of, bool first)
{
	weir_config_where at = where(r);
	const char *text = take(r);
	if (text == NULL || of->head == NULL)
		return;
	if (of->adds && weir_config_given(of->head, of->name))
		first = false;
	weir_config_set_at(r->config, of->head, of->name, text, at, first);
}

static void read_list(config_reader *r, const key *of)
{
	bool first = true;
	for (r->at++; !is_sign(r, 0, '}'); first = false) {
		if (!is_value(r, 0)) {
			broken(r);
			return;
		}
		set_value(r, of, first);
		if (is_sign(r, 0, ','))
			r->at++;
		else if (!is_sign(r, 0, '}')) {
			broken(r);
			return;
		}
	}
	r->at++;
}

/* What follows the name of a key. */
static void read_values(config_reader *r, weir_block_head *head, const char *name)
{
	key of = {head, name, is_sign(r, 0, '+')};
	r->at++;
	if (is_sign(r, 0, '{'))
		read_list(r, &of);
	else if (is_value(r, 0))
		set_value(r, &of, true);
	else
		broken(r);
}

static bool is_assignment(const config_reader *r, unsigned ahead)
{
	return is_sign(r, ahead, '=') || is_sign(r, ahead, '+');
}

/* ---- blocks ---- */

static void unknown_block(config_reader *r, const char *name, weir_config_where begins)
{
	char quoted[QUOTE_BYTES];
	weir_text_quote(quoted, sizeof(quoted), name);
	const char *near = weir_text_nearest(name, weir_config_block_name_at, r->config);
	if (near != NULL)
		weir_config_wrong_at(r->config, begins, "there is no block '%s'; did you mean '%s'?", quoted,
				     near);
	else
		weir_config_wrong_at(r->config, begins,
				     "there is no block '%s'; 'weir check --list' lists them", quoted);
}

/* NULL: its contents are dropped. */
static weir_block_head *enter(config_reader *r, const weir_config_block *block, const char *title,
			      weir_config_where begins)
{
	if (block == NULL)
		return NULL;
	if (r->config->blocks++ == WEIR_CONFIG_BLOCKS_MAX)
		weir_config_wrong_at(r->config, begins, "more than %d blocks", WEIR_CONFIG_BLOCKS_MAX);
	return r->config->blocks <= WEIR_CONFIG_BLOCKS_MAX
		       ? weir_config_add_at(r->config, block, title, begins)
		       : NULL;
}

/* A name within a block that is not followed by an equal sign. */
static void no_key(config_reader *r, const char *block_name, const weir_config_block *block, const char *name)
{
	char quoted[QUOTE_BYTES];
	if (block == NULL || weir_config_row_find(block, name) != NULL || token(r) == NULL) {
		lacks(r, "'%s' needs an equal sign and a value: %s = ...", name);
		return;
	}
	r->failed = true;
	r->at--;
	weir_config_wrong_at(r->config, where(r),
			     "'%s' is not expected within %s, which takes keys: NAME = VALUE; is a } missing "
			     "before it?",
			     weir_text_quote(quoted, sizeof(quoted), name), block_name);
}

static void read_keys(config_reader *r, const char *block_name, const weir_config_block *block,
		      weir_block_head *head)
{
	while (!r->failed && !is_sign(r, 0, '}')) {
		if (!is_value(r, 0)) {
			broken(r);
			return;
		}
		const char *name = take(r);
		if (name == NULL)
			r->failed = true;
		else if (is_assignment(r, 0))
			read_values(r, head, name);
		else
			no_key(r, block_name, block, name);
	}
	r->at++;
}

/* Called after the name of a block: reads its title, if it has one, and the rest. */
static void read_block(config_reader *r, const char *name, weir_config_where begins)
{
	const weir_config_block *block = weir_config_block_find(r->config, name);
	bool titled = block != NULL ? block->is->title != NULL : is_value(r, 0);
	const char *title = NULL;
	if (block == NULL)
		unknown_block(r, name, begins);
	if (titled && !is_value(r, 0)) {
		lacks(r, "'%s' needs a title before its {: %s \"...\" {", name);
		return;
	}
	if (titled)
		title = take(r);
	if (!is_sign(r, 0, '{')) {
		lacks(r, "'%s' needs a { here, after its title if it has one", name);
		return;
	}
	r->at++;
	weir_block_head *head = enter(r, block, title, begins);
	read_keys(r, name, block, head);
}

/* ---- the top of a file ---- */

static void read_file(weir_config *config, const char *path, weir_config_where where,
		      const config_reader *outer);

static bool is_open(const config_reader *r, const char *path)
{
	for (; r != NULL; r = r->outer)
		if (strcmp(r->name, path) == 0)
			return true;
	return false;
}

static unsigned depth_of(const config_reader *r)
{
	unsigned depth = 0;
	for (; r != NULL; r = r->outer)
		depth++;
	return depth;
}

/* The name is relative to the folder of the including file. */
static void include(config_reader *r, const char *name, weir_config_where at)
{
	char path[4096];
	const char *slash = name[0] != '/' ? strrchr(r->name, '/') : NULL;
	int folder = slash != NULL ? (int)(slash - r->name) + 1 : 0;
	int length = snprintf(path, sizeof(path), "%.*s%s", folder, r->name, name);
	if (length >= (int)sizeof(path))
		weir_config_wrong_at(r->config, at, "include: the name of the file is too long");
	else if (is_open(r, path))
		weir_config_wrong_at(r->config, at, "include: %s includes itself", path);
	else if (depth_of(r) >= INCLUDES_MAX)
		weir_config_wrong_at(r->config, at, "include: more than %d files within each other",
				     INCLUDES_MAX);
	else if (r->config->files_read >= FILES_MAX)
		weir_config_wrong_at(r->config, at, "more than %d files", FILES_MAX);
	else
		read_file(r->config, path, at, r);
}

static void read_include(config_reader *r, weir_config_where at)
{
	const char *name = NULL;
	unsigned count = 0;
	if (!is_sign(r, 0, '(')) {
		lacks(r, "'%s' needs its file in parentheses: %s(\"other.conf\")", "include");
		return;
	}
	for (r->at++; !is_sign(r, 0, ')'); count++) {
		if (!is_value(r, 0)) {
			lacks(r, "'%s' takes one file in quotes: %s(\"other.conf\")", "include");
			return;
		}
		name = take(r);
		if (is_sign(r, 0, ','))
			r->at++;
	}
	r->at++;
	if (count != 1 || name == NULL || name[0] == '\0')
		weir_config_wrong_at(r->config, at, "include takes one file: include(\"other.conf\")");
	else
		include(r, name, at);
}

/* A name that is neither a block's nor a key's. */
static void misplaced(config_reader *r, const char *name, weir_config_where at)
{
	char quoted[QUOTE_BYTES];
	r->failed = true;
	weir_config_wrong_at(r->config, at,
			     "'%s' is not expected here; write a block, as log { access = - }, or "
			     "include(\"FILE\")",
			     weir_text_quote(quoted, sizeof(quoted), name));
}

static void read_top(config_reader *r)
{
	char quoted[QUOTE_BYTES];
	if (!is_value(r, 0)) {
		broken(r);
		return;
	}
	weir_config_where begins = where(r);
	const char *name = take(r);
	if (name == NULL) {
		r->failed = true;
	} else if (strcmp(name, "include") == 0) {
		read_include(r, begins);
	} else if (is_assignment(r, 0)) {
		weir_config_wrong_at(r->config, begins,
				     "'%s' is outside of any block; keys belong into blocks, as log { access "
				     "= - }",
				     weir_text_quote(quoted, sizeof(quoted), name));
		read_values(r, NULL, name);
	} else if (is_sign(r, 0, '{') || (is_value(r, 0) && is_sign(r, 1, '{')) ||
		   weir_config_block_find(r->config, name) != NULL) {
		read_block(r, name, begins);
	} else {
		misplaced(r, name, begins);
	}
}

/* text: a NUL follows its last byte. */
static void read_source(weir_config *config, const char *name, char *text, size_t length,
			const config_reader *outer)
{
	config_reader r = {.outer = outer, .config = config, .name = weir_config_copy(config, name)};
	if (r.name == NULL || !weir_config_scan(config, r.name, text, length, &r.tokens))
		return;
	while (r.at < r.tokens.count && !r.failed && !config->memory.failed)
		read_top(&r);
}

static void note_file(weir_config *config, const char *path)
{
	void *array = config->file_read;
	const char **noted = weir_config_grow(config, &array, &config->files_read, sizeof(*noted));
	config->file_read = array;
	if (noted != NULL && (*noted = weir_config_copy(config, path)) == NULL)
		config->files_read--;
}

/* where: what asks for the file; messages refer to it. Bytes beyond the bound are not read. */
static void read_file(weir_config *config, const char *path, weir_config_where where,
		      const config_reader *outer)
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
		weir_config_wrong_at(config, where, "%s " WEIR_CONFINE_HIDES, path);
	else if (failed != 0)
		weir_config_wrong_at(config, where, "%s: %s", path, strerror(-failed));
	else if (length > WEIR_CONFIG_BYTES_MAX)
		weir_config_wrong_at(config, where, "%s: longer than 1MB; is it a configuration?", path);
	else
		read_source(config, path, text, length, outer);
	if (failed == 0)
		note_file(config, path);
	if (file != NULL)
		fclose(file);
	weir_mem_free(text);
}

static int result(const weir_config *config)
{
	if (config->memory.failed)
		return weir_error_set(-ENOMEM, "out of memory");
	if (config->errors > 0)
		return weir_error_set(-EINVAL, "the configuration has errors");
	return 0;
}

int weir_config_read(weir_config *config, const char *path)
{
	read_file(config, path, (weir_config_where){0}, NULL);
	return result(config);
}

int weir_config_read_text(weir_config *config, const char *name, const char *text, size_t length)
{
	char *copy = length <= WEIR_CONFIG_BYTES_MAX ? weir_mem_zalloc(length + 1) : NULL;
	if (copy == NULL)
		return weir_error_set(-ENOMEM, "%s: out of memory, or longer than 1MB", name);
	memcpy(copy, text, length);
	read_source(config, name, copy, length, NULL);
	weir_mem_free(copy);
	return result(config);
}
