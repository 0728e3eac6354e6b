/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

static _Thread_local char last[512];

int weir_error_set(int code, const char *format, ...)
{
	/* Formatted into a separate buffer, so that an error may quote the previous one. */
	char text[sizeof(last)];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(last, text, strlen(text) + 1);
	return code;
}

const char *weir_error(void)
{
	return last;
}

const char *weir_version(void)
{
	return TEXT(WEIR_VERSION_MAJOR) "." TEXT(WEIR_VERSION_MINOR) "." TEXT(WEIR_VERSION_PATCH);
}
