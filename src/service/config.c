/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration's memory, messages and elements. */
#include "service/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "service/config_inside.h"

#define MESSAGES_MAX  100
#define MESSAGE_BYTES 512

/* Everything that was allocated, so that it can be given back without looking into it. */
struct weir_config_memory {
	struct weir_config_memory *next;
	max_align_t bytes[];
};

/* ---- memory ---- */

void *weir_config_alloc(weir_config *config, size_t bytes)
{
	struct weir_config_memory *memory = weir_mem_zalloc(sizeof(*memory) + bytes);
	if (memory == NULL) {
		config->out_of_memory = true;
		return NULL;
	}
	memory->next = config->memory;
	config->memory = memory;
	return memory->bytes;
}

char *weir_config_copy(weir_config *config, const char *text)
{
	size_t size = text != NULL ? strlen(text) + 1 : 0;
	char *copy = text != NULL ? weir_config_alloc(config, size) : NULL;
	if (copy != NULL)
		memcpy(copy, text, size);
	return copy;
}

/* Room is doubled whenever the count reaches a power of two; the old array stays until the end, which is at most as much again. */
void *weir_config_grow(weir_config *config, void **array, unsigned *count, size_t size)
{
	unsigned n = *count;
	if ((n & (n - 1)) == 0) {
		void *larger = weir_config_alloc(config, (n > 0 ? 2 * n : 1) * size);
		if (larger == NULL)
			return NULL;
		if (n > 0)
			memcpy(larger, *array, n * size);
		*array = larger;
	}
	*count = n + 1;
	return (char *)*array + n * size;
}

int weir_config_new(weir_config **ret_config)
{
	weir_config *config = weir_mem_zalloc(sizeof(*config));
	if (config == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++)
		if (block->count_offset == 0)
			weir_config_defaults(config, block, weir_config_element(config, block, 0));
	if (config->out_of_memory) {
		weir_config_free(&config);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	*ret_config = config;
	return 0;
}

void weir_config_free(weir_config **config)
{
	if (*config == NULL)
		return;
	for (struct weir_config_memory *memory = (*config)->memory, *next; memory != NULL; memory = next) {
		next = memory->next;
		weir_mem_free(memory);
	}
	weir_mem_free(*config);
	*config = NULL;
}

/* ---- messages ---- */

static void note(weir_config *config, weir_config_place place, bool warning, const char *format, va_list args)
{
	char text[MESSAGE_BYTES];
	*(warning ? &config->warnings : &config->errors) += 1;
	if (config->messages == MESSAGES_MAX) {
		config->unsaid++;
		return;
	}
	vsnprintf(text, sizeof(text), format, args);
	void *array = config->message;
	weir_config_message *message = weir_config_grow(config, &array, &config->messages, sizeof(*message));
	config->message = array;
	if (message == NULL)
		return;
	const char *copy = weir_config_copy(config, text);
	*message = (weir_config_message){place, warning, copy != NULL ? copy : "out of memory"};
}

void weir_config_wrong(weir_config *config, weir_config_place place, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	note(config, place, false, format, args);
	va_end(args);
}

void weir_config_warn(weir_config *config, weir_config_place place, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	note(config, place, true, format, args);
	va_end(args);
}

weir_config_place weir_config_key_place(const weir_config_block *block, const weir_config_head *head,
					const char *name)
{
	const weir_config_key *key = weir_config_key_find(block, name);
	unsigned line = key != NULL ? head->lines[key - block->keys] : 0;
	return (weir_config_place){head->place.file, line != 0 ? line : head->place.line};
}

static void print_message(const weir_config_message *message, FILE *file)
{
	fprintf(file, "%s:", message->place.file != NULL ? message->place.file : "command line");
	if (message->place.file != NULL && message->place.line != 0)
		fprintf(file, "%u:", message->place.line);
	fprintf(file, " %s%s\n", message->warning ? "warning: " : "", message->text);
}

/* Syntax, then values, then what only the whole shows: they were found in that order, and are told in that of the file. */
static int by_place(const void *a, const void *b)
{
	const weir_config_message *const *one = a, *const *other = b;
	const char *file = (*one)->place.file != NULL ? (*one)->place.file : "";
	const char *other_file = (*other)->place.file != NULL ? (*other)->place.file : "";
	int order = strcmp(file, other_file);
	if (order == 0)
		order = ((*one)->place.line > (*other)->place.line) -
			((*one)->place.line < (*other)->place.line);
	return order != 0 ? order : (*one > *other) - (*one < *other);
}

void weir_config_print_messages(const weir_config *config, FILE *file)
{
	const weir_config_message *sorted[MESSAGES_MAX] = {0};
	for (unsigned i = 0; i < config->messages; i++)
		sorted[i] = &config->message[i];
	qsort(sorted, config->messages, sizeof(sorted[0]), by_place);
	for (unsigned i = 0; i < config->messages; i++)
		print_message(sorted[i], file);
	if (config->unsaid > 0)
		fprintf(file, "and %u more\n", config->unsaid);
	if (config->out_of_memory)
		fputs("out of memory\n", file);
}

/* ---- elements ---- */

static weir_config_head *same_title(weir_config *config, const weir_config_block *block, const char *title)
{
	weir_config_head *head;
	for (unsigned at = 0; (head = weir_config_element(config, block, at)) != NULL; at++)
		if (strcmp(head->title, title) == 0)
			return head;
	return NULL;
}

/* Each of several listeners without a port gets one of its own. */
static bool may_be_many(const weir_config_block *block, const char *title)
{
	size_t length = strlen(title);
	return strcmp(block->name, "listen") == 0 && length > 2 && strcmp(title + length - 2, ":0") == 0;
}

static void refuse_second(weir_config *config, const weir_config_block *block, const weir_config_head *first,
			  weir_config_place place)
{
	const char *file = first->place.file != NULL ? first->place.file : "the command line";
	if (block->count_offset == 0)
		weir_config_wrong(config, place, "a second %s block; the first is at %s:%u", block->name,
				  file, first->place.line);
	else
		weir_config_wrong(config, place, "a second %s \"%s\"; the first is at %s:%u", block->name,
				  first->title, file, first->place.line);
}

/* The one in place: its second description is looked at, too, for what else is wrong. */
static weir_config_head *add_single(weir_config *config, const weir_config_block *block, const char *title,
				    weir_config_place place)
{
	weir_config_head *head = weir_config_element(config, block, 0);
	if (head->place.file != NULL) {
		refuse_second(config, block, head, place);
		memset(head->lines, 0, sizeof(head->lines));
	}
	head->place = place;
	head->title = title;
	return head;
}

weir_config_head *weir_config_add(weir_config *config, const weir_config_block *block, const char *title,
				  weir_config_place place)
{
	unsigned count;
	void *array;
	title = weir_config_copy(config, title != NULL ? title : "");
	if (title == NULL)
		return NULL;
	if (block->count_offset == 0)
		return add_single(config, block, title, place);
	weir_config_head *first = same_title(config, block, title);
	if (first != NULL && !may_be_many(block, title))
		refuse_second(config, block, first, place);
	memcpy(&array, (char *)config + block->offset, sizeof(array));
	memcpy(&count, (char *)config + block->count_offset, sizeof(count));
	weir_config_head *head = weir_config_grow(config, &array, &count, block->size);
	if (head == NULL)
		return NULL;
	memset(head, 0, block->size);
	head->title = title;
	head->place = place;
	memcpy((char *)config + block->offset, &array, sizeof(array));
	memcpy((char *)config + block->count_offset, &count, sizeof(count));
	weir_config_defaults(config, block, head);
	return head;
}

void weir_config_add_param(weir_config *config, weir_config_params *params, const char *name,
			   const char *value, weir_config_place place)
{
	void *array = params->at;
	weir_config_param *param = weir_config_grow(config, &array, &params->count, sizeof(*param));
	params->at = array;
	if (param == NULL)
		return;
	name = weir_config_copy(config, name);
	value = weir_config_copy(config, value);
	*param = (weir_config_param){name != NULL ? name : "", value != NULL ? value : "", place};
}
