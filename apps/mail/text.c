/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that peers sent: made valid, folded for comparison, and cut without cutting a character. */
#include "text.h"

#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wctype.h>

#define REPLACEMENT 0xfffd

static locale_t unicode;

static void make_unicode(void)
{
	unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

/* Lower case; without the locale of ASCII only. */
static uint32_t lower(uint32_t character)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (character < 0x80)
		return character >= 'A' && character <= 'Z' ? character + 32 : character;
	pthread_once(&once, make_unicode);
	return unicode != (locale_t)0 ? (uint32_t)towlower_l((wint_t)character, unicode) : character;
}

/* The bytes of the character that begins with this byte; 0 if none does. */
static size_t sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Takes a character off the text; a byte that is none of UTF-8 counts as one that cannot be shown. */
static uint32_t take(weir_span *text)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *bytes = (const unsigned char *)text->at;
	size_t length = sequence_length(bytes[0]);
	uint32_t character = length == 1 ? bytes[0] : bytes[0] & (0x7f >> length);
	bool good = length > 0 && length <= text->length;
	for (size_t i = 1; good && i < length; i++) {
		good = (bytes[i] & 0xc0) == 0x80;
		character = character << 6 | (bytes[i] & 0x3f);
	}
	if (good && length > 1)
		good = character >= least[length] && character <= 0x10ffff && (character & ~0x7ffu) != 0xd800;
	size_t taken = good ? length : 1;
	text->at += taken;
	text->length -= taken;
	return good ? character : REPLACEMENT;
}

/* Appends a character if it fits with a NUL behind it. */
static bool put(uint32_t character, char *to, size_t size, size_t *length)
{
	char bytes[4];
	size_t count = 0;
	if (character < 0x80) {
		bytes[count++] = (char)character;
	} else if (character < 0x800) {
		bytes[count++] = (char)(0xc0 | character >> 6);
	} else if (character < 0x10000) {
		bytes[count++] = (char)(0xe0 | character >> 12);
		bytes[count++] = (char)(0x80 | (character >> 6 & 0x3f));
	} else {
		bytes[count++] = (char)(0xf0 | character >> 18);
		bytes[count++] = (char)(0x80 | (character >> 12 & 0x3f));
		bytes[count++] = (char)(0x80 | (character >> 6 & 0x3f));
	}
	if (character >= 0x80)
		bytes[count++] = (char)(0x80 | (character & 0x3f));
	if (*length + count >= size)
		return false;
	memcpy(to + *length, bytes, count);
	*length += count;
	return true;
}

static uint32_t printable(uint32_t character)
{
	return character < 0x20 || character == 0x7f ? ' ' : character;
}

size_t text_clean(weir_span text, char *to, size_t size)
{
	size_t length = 0;
	while (text.length > 0 && put(printable(take(&text)), to, size, &length))
		;
	to[length] = '\0';
	return length;
}

size_t text_fold(weir_span text, char *to, size_t size)
{
	size_t length = 0;
	while (text.length > 0 && strchr("\"' \t<(", text.at[0]) != NULL && text.at[0] != '\0') {
		text.at++;
		text.length--;
	}
	while (text.length > 0 && put(lower(printable(take(&text))), to, size, &length))
		;
	to[length] = '\0';
	return length;
}

/* Whether the text, folded, begins with this word. */
static bool begins_with(weir_span text, const char *word)
{
	weir_span rest = {word, strlen(word)};
	while (rest.length > 0)
		if (text.length == 0 || lower(take(&text)) != take(&rest))
			return false;
	return true;
}

/* A place at most `back` bytes before another: behind a blank, else where a character begins. */
static size_t step_back(weir_span text, size_t place, size_t back)
{
	size_t from = place > back ? place - back : 0;
	for (size_t i = from; from > 0 && i < place; i++)
		if (text.at[i] == ' ' || text.at[i] == '\n')
			return i + 1;
	while (from < place && from > 0 && ((unsigned char)text.at[from] & 0xc0) == 0x80)
		from++;
	return from;
}

bool text_excerpt(weir_span text, const char *word, char *to, size_t size)
{
	weir_span rest = text;
	bool boundary = true;
	while (rest.length > 0) {
		if (boundary && begins_with(rest, word)) {
			size_t from = step_back(text, text.length - rest.length, size / 3);
			text_clean((weir_span){text.at + from, text.length - from}, to, size);
			return true;
		}
		uint32_t character = take(&rest);
		boundary = character < 0x80 && !isalnum((int)character);
	}
	return false;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

weir_span text_word(weir_span *rest)
{
	while (rest->length > 0 && !is_word(rest->at[0])) {
		rest->at++;
		rest->length--;
	}
	weir_span word = {rest->at, 0};
	while (word.length < rest->length && is_word(rest->at[word.length]))
		word.length++;
	rest->at += word.length;
	rest->length -= word.length;
	return word;
}

/* Whether a word, folded, is this one, or begins with it. */
static bool word_is(weir_span word, weir_span wanted, bool begins)
{
	char folded[256];
	size_t length = text_fold(word, folded, sizeof(folded));
	return (begins ? length >= wanted.length : length == wanted.length) &&
	       memcmp(folded, wanted.at, wanted.length) == 0;
}

static bool has_here(weir_span text, weir_span words, bool begins)
{
	for (weir_span wanted = text_word(&words); wanted.length > 0; wanted = text_word(&words)) {
		weir_span word = text_word(&text);
		if (word.length == 0 || !word_is(word, wanted, begins && words.length == 0))
			return false;
	}
	return true;
}

bool text_has(weir_span text, const char *words, bool begins)
{
	while (text.length > 0) {
		if (has_here(text, (weir_span){words, strlen(words)}, begins))
			return true;
		text_word(&text);
	}
	return false;
}
