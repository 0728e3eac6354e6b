/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as parameters of any law. The input: which law, then name and value, each ended by a NUL, again and again. A call that fails
 * leaves the parameters as they were and a sentence of printable bytes; whatever parameters result, checking them ends.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir/law.h>

#include "target.h"

static const weir_admission_law *law_for(unsigned number)
{
	size_t count = 0;
	while (weir_law_at(count) != NULL)
		count++;
	return weir_law_at(count != 0 ? number % count : 0);
}

static void set(const weir_admission_law *law, void *params, void *before, const char *name,
		const char *value)
{
	memcpy(before, params, law->params_bytes);
	int result = weir_law_set(law, params, name, value);
	if (result == 0)
		return;
	CHECK(result == -EINVAL);
	CHECK(memcmp(before, params, law->params_bytes) == 0);
	check_sentence();
}

/* The next text of the input, as memory of just its size. NULL: there is none. */
static char *next_text(const uint8_t **data, size_t *size)
{
	size_t length = strnlen((const char *)*data, *size);
	if (*size == 0)
		return NULL;
	char *text = malloc(length + 1);
	CHECK(text != NULL);
	memcpy(text, *data, length);
	text[length] = '\0';
	size_t used = length < *size ? length + 1 : length;
	*data += used;
	*size -= used;
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	const weir_admission_law *law = law_for(data[0]);
	void *params = malloc(law->params_bytes), *before = malloc(law->params_bytes);
	CHECK(params != NULL && before != NULL);
	weir_law_defaults(law, params);
	data++, size--;
	for (char *name; (name = next_text(&data, &size)) != NULL;) {
		char *value = next_text(&data, &size);
		set(law, params, before, name, value);
		free(name);
		free(value);
	}
	if (weir_law_check(law, params) != 0)
		check_sentence();
	free(params);
	free(before);
	return 0;
}
