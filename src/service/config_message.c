/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a configuration, or odd: kept with file and line, and printed in their order. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "service/config_inside.h"

#define MESSAGES_MAX  100
#define MESSAGE_BYTES 512

/* The arguments behind the format, as text. */
#define PRINT(text, format)                                  \
	do {                                                 \
		va_list args;                                \
		va_start(args, format);                      \
		vsnprintf(text, sizeof(text), format, args); \
		va_end(args);                                \
	} while (0)

static void note(weir_config *config, weir_config_where where, bool warning, const char *text)
{
	*(warning ? &config->warnings : &config->errors) += 1;
	if (config->messages == MESSAGES_MAX) {
		config->unsaid++;
		return;
	}
	void *array = config->message;
	weir_config_message *message = weir_config_grow(config, &array, &config->messages, sizeof(*message));
	config->message = array;
	if (message == NULL)
		return;
	const char *copy = weir_config_copy(config, text);
	*message = (weir_config_message){where, warning, copy != NULL ? copy : "out of memory"};
}

void weir_config_wrong_at(weir_config *config, weir_config_where where, const char *format, ...)
{
	char text[MESSAGE_BYTES];
	PRINT(text, format);
	note(config, where, false, text);
}

weir_config_where weir_config_key_where(const weir_block_head *head, const char *key)
{
	const weir_config_row *row = key != NULL ? weir_config_row_find(head->block, key) : NULL;
	unsigned line = row != NULL ? head->lines[row - head->block->rows] : 0;
	return (weir_config_where){head->file, line != 0 ? line : head->line};
}

void weir_config_wrong(weir_config *config, const weir_block_head *head, const char *key, const char *format,
		       ...)
{
	char text[MESSAGE_BYTES];
	PRINT(text, format);
	note(config, weir_config_key_where(head, key), false, text);
}

void weir_config_warn(weir_config *config, const weir_block_head *head, const char *key, const char *format,
		      ...)
{
	char text[MESSAGE_BYTES];
	PRINT(text, format);
	note(config, weir_config_key_where(head, key), true, text);
}

static void print_message(const weir_config_message *message, FILE *file)
{
	fprintf(file, "%s:", message->where.file != NULL ? message->where.file : "command line");
	if (message->where.file != NULL && message->where.line != 0)
		fprintf(file, "%u:", message->where.line);
	fprintf(file, " %s%s\n", message->warning ? "warning: " : "", message->text);
}

/* Mistakes are found as syntax, values, then the whole, and printed in the order of the file. */
static int by_where(const void *a, const void *b)
{
	const weir_config_message *const *one = a, *const *other = b;
	const char *file = (*one)->where.file != NULL ? (*one)->where.file : "";
	const char *other_file = (*other)->where.file != NULL ? (*other)->where.file : "";
	int order = strcmp(file, other_file);
	if (order == 0)
		order = ((*one)->where.line > (*other)->where.line) -
			((*one)->where.line < (*other)->where.line);
	return order != 0 ? order : (*one > *other) - (*one < *other);
}

void weir_config_print_messages(const weir_config *config, FILE *file)
{
	const weir_config_message *sorted[MESSAGES_MAX] = {0};
	for (unsigned i = 0; i < config->messages; i++)
		sorted[i] = &config->message[i];
	qsort(sorted, config->messages, sizeof(sorted[0]), by_where);
	for (unsigned i = 0; i < config->messages; i++)
		print_message(sorted[i], file);
	if (config->unsaid > 0)
		fprintf(file, "and %u more\n", config->unsaid);
	if (config->memory.failed)
		fputs("out of memory\n", file);
}
