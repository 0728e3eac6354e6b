/* SPDX-License-Identifier: Apache-2.0 */
#include "service/config_scan.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 65536
#define DEPTH_MAX  8
#define NAME_BYTES 64

typedef struct scan {
	weir_config *config;
	const char *file;
	const char *end; /* *end is a NUL */
	const char *at;
	unsigned line;
	unsigned errors;
	weir_config_tokens tokens;
	unsigned opened[DEPTH_MAX]; /* the lines of the open braces */
	unsigned depth;
} scan;

static void wrong(scan *s, unsigned line, const char *what)
{
	weir_config_wrong_at(s->config, (weir_config_where){s->file, line}, "%s", what);
	s->errors++;
}

static void wrong_byte(scan *s, unsigned char byte)
{
	weir_config_where where = {s->file, s->line};
	s->errors++;
	if (byte > ' ' && byte <= '~')
		weir_config_wrong_at(s->config, where,
				     "'%c' means nothing outside of quotes; write the value in \"quotes\"",
				     byte);
	else
		weir_config_wrong_at(s->config, where, "a byte of value %u, which no configuration has",
				     byte);
}

static void add(scan *s, weir_config_token_kind kind, const char *at, size_t length)
{
	void *array = s->tokens.token;
	if (s->tokens.count >= TOKENS_MAX) {
		if (s->tokens.count++ == TOKENS_MAX)
			wrong(s, s->line, "the file is too long: more than 65536 words and signs");
		return;
	}
	weir_config_token *token = weir_config_grow(s->config, &array, &s->tokens.count, sizeof(*token));
	s->tokens.token = array;
	if (token != NULL)
		*token = (weir_config_token){kind, s->line, at, length};
}

/* ---- white space and comments ---- */

static void skip_line(scan *s)
{
	while (s->at < s->end && *s->at != '\n')
		s->at++;
}

static void skip_comment(scan *s)
{
	unsigned line = s->line;
	const char *close = strstr(s->at + 2, "*/");
	if (close == NULL)
		wrong(s, line, "a comment begins with /* here and never ends; close it with */");
	for (const char *to = close != NULL ? close + 2 : s->end; s->at < to; s->at++) {
		if (*s->at == '\n')
			s->line++;
	}
}

/* ---- quotes ---- */

/* "${NAME}" or "${NAME:-otherwise}". A variable that is not set is an error, not an empty text. */
static void check_variable(scan *s)
{
	char name[NAME_BYTES];
	size_t length = strcspn(s->at, "}\"\n");
	if (s->at[length] != '}') {
		wrong(s, s->line, "\"${\" without a \"}\" in the same quotes; write \"${NAME}\"");
		return;
	}
	size_t name_length = strcspn(s->at + 2, "}:");
	bool otherwise = s->at[2 + name_length] == ':' && s->at[3 + name_length] == '-';
	if (name_length == 0 || name_length >= sizeof(name)) {
		wrong(s, s->line, "\"${\" without a name of at most 63 bytes; write \"${NAME}\"");
	} else if (!otherwise) {
		memcpy(name, s->at + 2, name_length);
		name[name_length] = '\0';
		if (s->at[2 + name_length] != '}' || getenv(name) == NULL) {
			weir_config_wrong_at(
				s->config, (weir_config_where){s->file, s->line},
				"the environment has no '%s'; write \"${%s:-otherwise}\" to go without", name,
				name);
			s->errors++;
		}
	}
	s->at += length;
}

/* A backslash and what follows it. */
static void check_escape(scan *s, char quote)
{
	char escaped = s->at[1];
	if (quote == '"' && (escaped == 'x' || (escaped >= '0' && escaped <= '9')))
		wrong(s, s->line,
		      "bytes by number (\\x41, \\101) are not accepted; write the character itself");
	if (escaped != '\n' && s->at + 1 < s->end)
		s->at++;
}

static void scan_quoted(scan *s)
{
	const char quote = *s->at, *from = ++s->at;
	for (; s->at < s->end && *s->at != quote && *s->at != '\n'; s->at++) {
		if (quote == '"' && s->at[0] == '$' && s->at[1] == '{')
			check_variable(s);
		else if (*s->at == '\\')
			check_escape(s, quote);
		else if (((unsigned char)*s->at < ' ' && *s->at != '\t') || *s->at == 127)
			wrong_byte(s, (unsigned char)*s->at);
		if (*s->at == '\n')
			break;
	}
	if (s->at >= s->end || *s->at != quote) {
		wrong(s, s->line,
		      quote == '"' ? "a text begins with \" and does not end in its line; close it with \""
				   : "a text begins with ' and does not end in its line; close it with '");
		return;
	}
	add(s, quote == '"' ? WEIR_TOKEN_DOUBLE : WEIR_TOKEN_SINGLE, from, (size_t)(s->at - from));
	s->at++;
}

/* ---- signs and words ---- */

static void scan_sign(scan *s)
{
	char sign = *s->at;
	if (sign == '{' && s->depth == DEPTH_MAX)
		wrong(s, s->line, "too many braces within braces; is a } missing?");
	else if (sign == '{')
		s->opened[s->depth++] = s->line;
	else if (sign == '}' && s->depth == 0)
		wrong(s, s->line, "a } without a { before it");
	else if (sign == '}')
		s->depth--;
	size_t length = sign == '+' ? 2 : 1;
	add(s, WEIR_TOKEN_SIGN, s->at, length);
	s->at += length;
}

/* Neither a separator nor an invalid byte. */
static bool is_word(unsigned char c)
{
	return c > ' ' && c != 127 && strchr("#\"'={}()+,*;|", c) == NULL;
}

static void scan_word(scan *s)
{
	const char *from = s->at;
	while (s->at < s->end && is_word((unsigned char)*s->at) && !(s->at[0] == '$' && s->at[1] == '{'))
		s->at++;
	if (s->at > from)
		add(s, WEIR_TOKEN_WORD, from, (size_t)(s->at - from));
	if (s->at[0] == '$' && s->at[1] == '{') {
		wrong(s, s->line, "write \"${NAME}\" in double quotes");
		skip_line(s);
	}
}

static void scan_one(scan *s)
{
	char c = *s->at;
	if (c == '\n') {
		s->line++;
		s->at++;
	} else if (c == ' ' || c == '\t') {
		s->at++;
	} else if (c == ';' || (c == '\r' && s->at[1] == '\n')) {
		s->at++;
	} else if (c == '#' || (c == '/' && s->at[1] == '/')) {
		skip_line(s);
	} else if (c == '/' && s->at[1] == '*') {
		skip_comment(s);
	} else if (c == '"' || c == '\'') {
		scan_quoted(s);
	} else if (c != '\0' && (strchr("{}()=,", c) != NULL || (c == '+' && s->at[1] == '='))) {
		scan_sign(s);
	} else if (is_word((unsigned char)c)) {
		scan_word(s);
	} else {
		wrong_byte(s, (unsigned char)c);
		s->at++;
	}
}

bool weir_config_scan(weir_config *config, const char *file, const char *text, size_t length,
		      weir_config_tokens *ret_tokens)
{
	scan s = {.config = config, .file = file, .end = text + length, .at = text, .line = 1};
	while (s.at < s.end && s.tokens.count <= TOKENS_MAX && !config->memory.failed)
		scan_one(&s);
	if (s.depth > 0 && s.errors == 0)
		wrong(&s, s.opened[s.depth - 1], "the { of this line is never closed; a } is missing");
	*ret_tokens = s.tokens;
	return s.errors == 0 && !config->memory.failed;
}

bool weir_config_token_is(const weir_config_tokens *tokens, unsigned at, char sign)
{
	return at < tokens->count && tokens->token[at].kind == WEIR_TOKEN_SIGN &&
	       tokens->token[at].at[0] == sign;
}

/* ---- the texts of tokens ---- */

/* Expands ${NAME} or ${NAME:-otherwise}. Returns its length in the text; *ret_length is that of the value. */
static size_t variable(const char *at, const char **ret_value, size_t *ret_length)
{
	char name[NAME_BYTES] = "";
	size_t length = strcspn(at, "}"), name_length = strcspn(at + 2, "}:");
	if (name_length < sizeof(name))
		memcpy(name, at + 2, name_length);
	const char *value = getenv(name), *otherwise = at + 2 + name_length + 2;
	*ret_value = value != NULL ? value : otherwise;
	*ret_length = value != NULL             ? strlen(value)
		      : otherwise < at + length ? (size_t)(at + length - otherwise)
						: 0;
	return length + 1;
}

/* Copies a token, with escapes removed and variables expanded; to NULL: only counts. */
static size_t decode(const weir_config_token *token, char *to)
{
	const char *at = token->at, *end = at + token->length, *value = at;
	size_t used = 0, length;
	for (; at < end; used += length) {
		bool escaped = *at == '\\' && at + 1 < end &&
			       (token->kind == WEIR_TOKEN_DOUBLE ||
				(token->kind == WEIR_TOKEN_SINGLE && (at[1] == '\'' || at[1] == '\\')));
		if (token->kind == WEIR_TOKEN_DOUBLE && at[0] == '$' && at[1] == '{') {
			at += variable(at, &value, &length);
		} else {
			value = escaped ? at + 1 : at;
			length = 1;
			at += escaped ? 2 : 1;
		}
		if (to != NULL)
			memcpy(to + used, value, length);
	}
	return used;
}

const char *weir_config_token_text(weir_config *config, const weir_config_token *token)
{
	char *text = weir_config_alloc(config, decode(token, NULL) + 1);
	if (text != NULL)
		decode(token, text);
	return text;
}
