/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sections.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"

#define LINE_MAX    1500
#define QUOTE_BYTES 48

typedef struct sections_reader {
	const weir_sections *sections;
	char *owner;
	const weir_key_memory *memory;
	weir_section *in; /* NULL: before the first section */
} sections_reader;

int weir_section_wrong(const char *path, unsigned line, const char *format, ...)
{
	char text[600], shown[600];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	weir_text_quote(shown, sizeof(shown), text);
	if (line == 0 || line == WEIR_SECTION_COMMAND)
		return weir_error_set(-EINVAL, "%s: as set on the command line: %s", path, shown);
	return weir_error_set(-EINVAL, "%s:%u: %s", path, line, shown);
}

/* ---- names ---- */

int weir_section_check_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	char quoted[QUOTE_BYTES];
	size_t length = strlen(name);
	if (length > 0 && length < WEIR_SECTION_NAME && strspn(name, letters) == length)
		return 0;
	return weir_error_set(
		-EINVAL, "'%s' is not a name; accepted are letters, digits, '-' and '_', at most %d of them",
		weir_text_quote(quoted, sizeof(quoted), name), WEIR_SECTION_NAME - 1);
}

static unsigned count_of(const weir_section_kind *kind, const void *owner)
{
	return kind->most > 0 ? *(const unsigned *)(const void *)((const char *)owner + kind->count_offset)
			      : 0;
}

static weir_section *section_at(const weir_section_kind *kind, const void *owner, unsigned at)
{
	return (weir_section *)(void *)((char *)owner + kind->offset + at * kind->bytes);
}

int weir_sections_find(const weir_section_kind *kind, const void *owner, const char *name)
{
	for (unsigned i = 0; i < count_of(kind, owner); i++)
		if (strcmp(section_at(kind, owner, i)->name, name) == 0)
			return (int)i;
	return -1;
}

/* Of any kind; NULL: there is none. */
static weir_section *find_named(const sections_reader *r, const char *name)
{
	for (const weir_section_kind *kind = r->sections->kinds; kind->name != NULL; kind++) {
		int at = weir_sections_find(kind, r->owner, name);
		if (at >= 0)
			return section_at(kind, r->owner, (unsigned)at);
		if (kind->title == NULL && strcmp(kind->name, name) == 0)
			return section_at(kind, r->owner, 0);
	}
	return NULL;
}

/* ---- keys ---- */

static const weir_key *row_of(const weir_section *section, const char *key)
{
	return section->kind != NULL && section->kind->keys != NULL ? weir_keys_find(section->kind->keys, key)
								    : NULL;
}

unsigned weir_section_line(const void *section, const char *key)
{
	const weir_section *s = section;
	const weir_key *row = row_of(s, key);
	unsigned line = row != NULL ? s->lines[row - s->kind->keys] : 0;
	return line != 0 ? line : s->line;
}

bool weir_section_given(const void *section, const char *key)
{
	const weir_section *s = section;
	const weir_key *row = row_of(s, key);
	return row != NULL && s->lines[row - s->kind->keys] != 0;
}

int weir_section_set(void *section, const weir_line *line, const weir_key_memory *memory)
{
	weir_section *s = section;
	const weir_key *row = row_of(s, line->key);
	if (row == NULL)
		return weir_keys_unknown(s->kind->keys, line->key);
	int failed = weir_key_set(row, section, line->value, NULL, true, memory);
	if (failed == 0)
		s->lines[row - s->kind->keys] = line->number;
	return failed == -EINVAL ? weir_error_set(-EINVAL, "%s: %s", line->key, weir_error()) : failed;
}

static int set(const sections_reader *r, weir_section *section, const weir_line *line)
{
	if (section->kind->set != NULL)
		return section->kind->set(r->owner, section, line);
	return weir_section_set(section, line, r->memory);
}

/* Splits "key = value"; the text is modified. */
static int split(char *text, unsigned number, weir_line *ret_line)
{
	char quoted[QUOTE_BYTES];
	char *equals = strchr(text, '=');
	if (equals == NULL)
		return weir_error_set(
			-EINVAL,
			"'%s' is neither a section nor a setting; accepted are [section NAME], key = "
			"value, and # comments",
			weir_text_quote(quoted, sizeof(quoted), text));
	*equals = '\0';
	*ret_line = (weir_line){weir_text_trim(text), weir_text_trim(equals + 1), number};
	if (*ret_line->key == '\0' || *ret_line->value == '\0')
		return weir_error_set(-EINVAL, "a setting is key = value, neither of them empty");
	return 0;
}

/* ---- sections ---- */

/* "accepted are [scenario], [stage NAME]" follows. */
static int wrong_section(const sections_reader *r, const char *why)
{
	char list[200];
	size_t at = 0;
	for (const weir_section_kind *kind = r->sections->kinds; kind->name != NULL && at < sizeof(list);
	     kind++)
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s[%s%s%s]", at > 0 ? ", " : "",
				       kind->name, kind->title != NULL ? " " : "",
				       kind->title != NULL ? kind->title : "");
	return weir_error_set(-EINVAL, "%s; accepted are %s", why, list);
}

static int check_name(const sections_reader *r, const weir_section_kind *kind, const char *name)
{
	int failed = weir_section_check_name(name);
	if (failed != 0)
		return failed;
	for (unsigned i = 0; kind->taken != NULL && kind->taken[i] != NULL; i++)
		if (strcmp(kind->taken[i], name) == 0)
			return weir_error_set(-EINVAL, "'%s' has a meaning of its own; choose another name",
					      name);
	const weir_section *other = find_named(r, name);
	if (other != NULL && (r->sections->one_namespace || other->kind == kind))
		return weir_error_set(-EINVAL, "the name '%s' is taken since line %u; choose another one",
				      name, other->line);
	return 0;
}

/* The struct of a new section, with its defaults; or the only one, which goes on. */
static int add(sections_reader *r, const weir_section_kind *kind, const char *title, unsigned line)
{
	bool named = kind->title != NULL && kind->most > 0;
	int failed = named ? check_name(r, kind, title) : 0;
	if (failed != 0)
		return failed;
	if (kind->title == NULL && *title != '\0')
		return weir_error_set(-EINVAL, "[%s] has no name", kind->name);
	if (kind->most > 0 && count_of(kind, r->owner) == kind->most)
		return weir_error_set(-EINVAL, "too many sections; at most %u of kind [%s %s] are accepted",
				      kind->most, kind->name, kind->title);
	r->in = section_at(kind, r->owner, count_of(kind, r->owner));
	if (kind->most > 0) {
		memset(r->in, 0, kind->bytes);
		failed = weir_keys_defaults(kind->keys, r->in, r->memory);
		*(unsigned *)(void *)(r->owner + kind->count_offset) += 1;
	}
	r->in->kind = kind;
	r->in->line = line;
	if (named)
		memcpy(r->in->name, title, strlen(title) + 1);
	if (failed == 0 && kind->begin != NULL)
		failed = kind->begin(r->owner, r->in, title);
	return failed;
}

/* "[kind title]"; the text is modified. */
static int begin(sections_reader *r, char *text, unsigned line)
{
	char quoted[QUOTE_BYTES], why[80];
	size_t length = strlen(text);
	if (text[length - 1] != ']')
		return wrong_section(r, "a section ends with ']'");
	text[length - 1] = '\0';
	char *name = weir_text_trim(text + 1), *title = name + strcspn(name, " \t");
	if (*title != '\0')
		*title++ = '\0';
	for (const weir_section_kind *kind = r->sections->kinds; kind->name != NULL; kind++)
		if (strcmp(kind->name, name) == 0)
			return add(r, kind, weir_text_trim(title), line);
	snprintf(why, sizeof(why), "there is no section [%s]", weir_text_quote(quoted, sizeof(quoted), name));
	return wrong_section(r, why);
}

/* ---- lines ---- */

/* The length of the UTF-8 character at the beginning; 0: there is none, or it is an overlong encoding. */
static size_t utf8_length(const unsigned char *at, size_t size)
{
	static const unsigned char least[] = {0, 0, 0xc2, 0xe0, 0xf0}, most[] = {0, 0, 0xdf, 0xef, 0xf4};
	if (at[0] < 0x80)
		return 1;
	size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
	if (at[0] < least[length] || at[0] > most[length] || size < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	bool surrogate = at[0] == 0xed && at[1] >= 0xa0;
	bool beyond = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
		      (at[0] == 0xf4 && at[1] >= 0x90);
	return surrogate || beyond ? 0 : length;
}

static bool is_text(const char *from, size_t length)
{
	const unsigned char *at = (const unsigned char *)from;
	for (size_t i = 0, step; i < length; i += step) {
		step = utf8_length(at + i, length - i);
		if (step == 0 || (at[i] < ' ' && at[i] != '\t') || at[i] == 0x7f)
			return false;
	}
	return true;
}

/* Copies a line as text, without its CR. */
static int copy_line(const char *from, size_t length, char *to)
{
	if (length > 0 && from[length - 1] == '\r')
		length--;
	if (length >= LINE_MAX)
		return weir_error_set(-EINVAL, "a line of at most %d characters is accepted", LINE_MAX - 1);
	if (!is_text(from, length))
		return weir_error_set(-EINVAL, "this is not text; accepted is UTF-8");
	memcpy(to, from, length);
	to[length] = '\0';
	return 0;
}

/* A comment goes from a '#' at the beginning or after a space to the end. */
static void cut_comment(char *text)
{
	for (char *at = strchr(text, '#'); at != NULL; at = strchr(at + 1, '#'))
		if (at == text || at[-1] == ' ' || at[-1] == '\t') {
			*at = '\0';
			return;
		}
}

static int read_line(sections_reader *r, const char *from, size_t length, unsigned number)
{
	char text[LINE_MAX];
	weir_line line = {0};
	int failed = copy_line(from, length, text);
	if (failed != 0)
		return failed;
	cut_comment(text);
	char *at = weir_text_trim(text);
	if (*at == '\0')
		return 0;
	if (*at == '[')
		return begin(r, at, number);
	failed = split(at, number, &line);
	if (failed != 0)
		return failed;
	if (r->in == NULL)
		return wrong_section(r, "a line before the first section");
	if (weir_section_given(r->in, line.key))
		return weir_error_set(-EINVAL, "'%s' is set twice in this section", line.key);
	return set(r, r->in, &line);
}

int weir_sections_read(const weir_sections *sections, void *owner, const weir_key_memory *memory,
		       const char *path, const char *text, size_t size)
{
	sections_reader r = {sections, owner, memory, NULL};
	unsigned number = 1;
	int failed = 0;
	if (size > WEIR_SECTION_TEXT_MAX)
		return weir_section_wrong(path, 1, "a file of at most 1 MB is accepted");
	for (const weir_section_kind *kind = sections->kinds; kind->name != NULL && failed == 0; kind++)
		if (kind->most == 0) {
			weir_section *only = section_at(kind, owner, 0);
			only->kind = kind;
			only->line = 1;
			failed = kind->keys != NULL ? weir_keys_defaults(kind->keys, only, memory) : 0;
		}
	for (size_t at = 0; at < size && failed == 0; number++) {
		const char *end = memchr(text + at, '\n', size - at);
		size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
		failed = read_line(&r, text + at, length, number);
		at += length + 1;
	}
	return failed == -EINVAL ? weir_section_wrong(path, number - 1, "%s", weir_error()) : failed;
}

int weir_sections_set(const weir_sections *sections, void *owner, const weir_key_memory *memory,
		      const char *path, const char *assignment)
{
	const sections_reader r = {sections, owner, memory, NULL};
	char text[LINE_MAX], quoted[QUOTE_BYTES];
	weir_line line = {0};
	int failed = copy_line(assignment, strlen(assignment), text);
	char *dot = text + (failed == 0 ? strcspn(text, ".=") : 0);
	if (failed != 0)
		return failed;
	if (*dot != '.')
		return weir_error_set(-EINVAL, "'%s' is not a setting; accepted is NAME.KEY=VALUE",
				      weir_text_quote(quoted, sizeof(quoted), assignment));
	*dot = '\0';
	weir_section *section = find_named(&r, text);
	if (section == NULL)
		return weir_error_set(
			-EINVAL, "%s: there is no '%s' to be set; accepted are the names of its sections",
			path, weir_text_quote(quoted, sizeof(quoted), text));
	failed = split(dot + 1, WEIR_SECTION_COMMAND, &line);
	if (failed == 0)
		failed = set(&r, section, &line);
	return failed == -EINVAL ? weir_section_wrong(path, WEIR_SECTION_COMMAND, "%s", weir_error())
				 : failed;
}

int weir_sections_file(const char *path, size_t most, char **ret_text, size_t *ret_size)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL)
		return weir_error_set(-errno, "%s: %s", path, strerror(errno));
	char *text = weir_mem_zalloc(most + 1);
	int failed = text == NULL ? -ENOMEM : 0;
	size_t size = failed ? 0 : fread(text, 1, most + 1, file);
	if (!failed && ferror(file))
		failed = weir_error_set(-EIO, "%s: cannot be read (a folder?)", path);
	else if (size > most)
		failed =
			weir_error_set(-EINVAL, "%s: a file of at most %zu MB is accepted", path, most >> 20);
	fclose(file);
	if (failed) {
		weir_mem_free(text);
		return failed;
	}
	*ret_text = text;
	*ret_size = size;
	return 0;
}

/* ---- explaining ---- */

static void print_kind(const weir_section_kind *kind, FILE *file)
{
	fprintf(file, "[%s%s%s]", kind->name, kind->title != NULL ? " " : "",
		kind->title != NULL ? kind->title : "");
}

void weir_sections_explain(const weir_sections *sections, FILE *file)
{
	for (const weir_section_kind *kind = sections->kinds; kind->name != NULL; kind++) {
		print_kind(kind, file);
		fprintf(file, "\n  %s\n", kind->help);
		for (const weir_key *key = kind->keys; key != NULL && key->name != NULL; key++)
			weir_key_explain(key, file);
		fputs(kind[1].name != NULL ? "\n" : "", file);
	}
}

void weir_sections_markdown(const weir_sections *sections, FILE *file)
{
	for (const weir_section_kind *kind = sections->kinds; kind->name != NULL; kind++) {
		fputs("### `", file);
		print_kind(kind, file);
		fprintf(file, "`\n\n%s\n\n", kind->help);
		if (kind->keys == NULL)
			continue;
		fputs("| key | value | default | bounds | |\n|---|---|---|---|---|\n", file);
		for (const weir_key *key = kind->keys; key->name != NULL; key++)
			weir_key_markdown(key, file);
		fputc('\n', file);
	}
}
