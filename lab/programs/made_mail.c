/* SPDX-License-Identifier: Apache-2.0 */
#include "made_mail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS     5000
#define KNOWN     100 /* words that have the same name in the mail of every seed */
#define PEOPLE    300
#define RECENT    50
#define TEXT_MAX  40000
#define RAW_MAX   (2u << 20)
#define ATTACHED  (512u << 10)
#define BEGINNING 1700000000 /* when the first message was sent */

/* What an answer needs of the message before it. */
typedef struct made_recent {
	char id[80], references[400], subject[200];
} made_recent;

struct made_mail {
	weir_random random;
	uint64_t seed, number;
	int64_t date_s;
	char words[WORDS][16];
	char people[PEOPLE][64];
	char addresses[PEOPLE][64];
	made_recent recent[RECENT];
	/* Of the last mail. */
	store_mail mail;
	weir_span bytes;
	char from[160], to[160], subject[260], sort_subject[200], id[80], references[400];
	char text[TEXT_MAX + 200];
	char raw[RAW_MAX];
};

/* 0 to count - 1; the first is the most frequent, the n-th about n times less. */
static unsigned zipf(weir_random *random, unsigned count)
{
	unsigned rank = (unsigned)pow(count + 1.0, weir_random_unit(random)) - 1;
	return rank < count ? rank : count - 1;
}

static void make_word(weir_random *random, char *word, size_t size, unsigned syllables)
{
	static const char first[] = "bdfgklmnprstvz", second[] = "aeiou";
	size_t length = 0;
	for (unsigned i = 0; i < syllables && length + 3 < size; i++) {
		word[length++] = first[weir_random_below(random, sizeof(first) - 1)];
		word[length++] = second[weir_random_below(random, sizeof(second) - 1)];
	}
	word[length] = '\0';
}

made_mail *made_mail_new(uint64_t seed)
{
	made_mail *made = calloc(1, sizeof(*made));
	if (made == NULL)
		return NULL;
	made->seed = seed;
	made->date_s = BEGINNING;
	weir_random_init(&made->random, seed);
	for (unsigned i = 0; i < WORDS; i++)
		make_word(&made->random, made->words[i], sizeof(made->words[i]),
			  i < 60 ? 1 + i / 30 : 2 + i % 4);
	/* Their ranks: the first is in most messages, the last in one of thirty. */
	for (unsigned i = 1; i <= KNOWN; i++)
		snprintf(made->words[30 + 10 * i], sizeof(made->words[0]), "word%u", i);
	for (unsigned i = 0; i < PEOPLE; i++) {
		char name[16], family[16];
		make_word(&made->random, name, sizeof(name), 2);
		make_word(&made->random, family, sizeof(family), 3);
		name[0] = (char)(name[0] - 32);
		snprintf(made->addresses[i], sizeof(made->addresses[i]), "%s.%u@example.org", family, i);
		family[0] = (char)(family[0] - 32);
		snprintf(made->people[i], sizeof(made->people[i]), "%s %s", name, family);
	}
	return made;
}

void made_mail_free(made_mail *made)
{
	free(made);
}

const char *made_mail_word(const made_mail *made, unsigned rarity)
{
	/* A message has about 250 words, and the word of rank n is each with a chance of 1 / (n ln WORDS). */
	unsigned rank = (unsigned)(250.0 * rarity / log(WORDS));
	return made->words[rank < WORDS ? rank : WORDS - 1];
}

/* ---- its parts ---- */

static void make_subject(made_mail *made, char *to, size_t size)
{
	size_t length = 0;
	unsigned count = 2 + (unsigned)weir_random_below(&made->random, 6);
	to[0] = '\0';
	for (unsigned i = 0; i < count && length + 20 < size; i++)
		length += (size_t)snprintf(to + length, size - length, "%s%s", i > 0 ? " " : "",
					   made->words[zipf(&made->random, WORDS)]);
}

static size_t make_text(made_mail *made)
{
	double mean = weir_random_lognormal(&made->random, 1800, 1.1);
	size_t want = mean < 60 ? 60 : mean > TEXT_MAX ? TEXT_MAX : (size_t)mean;
	size_t length = 0, line = 0;
	while (length < want) {
		const char *word = made->words[zipf(&made->random, WORDS)];
		size_t word_length = strlen(word);
		memcpy(made->text + length, word, word_length);
		length += word_length;
		line += word_length + 1;
		bool full = line > 66;
		made->text[length++] = full ? '\n' : ' ';
		line = full ? 0 : line;
	}
	made->text[length] = '\0';
	return length;
}

/* Answers one of the last messages, or begins a new thread. */
static void make_thread(made_mail *made)
{
	const made_recent *before = &made->recent[weir_random_below(&made->random, RECENT)];
	bool answer = before->id[0] != '\0' && weir_random_below(&made->random, 100) < 45;
	made->references[0] = '\0';
	if (answer) {
		/* Long threads keep the nearest ids. */
		const char *rest = before->references;
		while (strlen(rest) + strlen(before->id) + 2 > sizeof(made->recent[0].references))
			rest = strchr(rest, ' ') + 1;
		int length = snprintf(made->references, sizeof(made->references), "%s%s%s", rest,
				      rest[0] != '\0' ? " " : "", before->id);
		if (length < 0 || (size_t)length >= sizeof(made->references))
			made->references[0] = '\0';
		snprintf(made->sort_subject, sizeof(made->sort_subject), "%s", before->subject);
	} else {
		make_subject(made, made->sort_subject, sizeof(made->sort_subject));
	}
	snprintf(made->subject, sizeof(made->subject), "%s%s", answer ? "Re: " : "", made->sort_subject);
}

static void remember(made_mail *made)
{
	made_recent *recent = &made->recent[made->number % RECENT];
	snprintf(recent->id, sizeof(recent->id), "%s", made->id);
	snprintf(recent->references, sizeof(recent->references), "%s", made->references);
	snprintf(recent->subject, sizeof(recent->subject), "%s", made->sort_subject);
}

/* ---- the raw message ---- */

static size_t write_attachment(made_mail *made, size_t length)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	double mean = weir_random_lognormal(&made->random, 30000, 1.2);
	size_t size = mean > ATTACHED ? ATTACHED : (size_t)mean;
	length += (size_t)snprintf(
		made->raw + length, RAW_MAX - length,
		"--part\r\nContent-Type: application/pdf; name=\"%s.pdf\"\r\nContent-Transfer-Encoding: "
		"base64\r\nContent-Disposition: attachment; filename=\"%s.pdf\"\r\n\r\n",
		made->words[made->number % WORDS], made->words[made->number % WORDS]);
	for (size_t i = 0; i < size; i += 76) {
		uint64_t bits = 0;
		for (unsigned k = 0; k < 76; k++) {
			bits = k % 10 == 0 ? weir_random_u64(&made->random) : bits >> 6;
			made->raw[length++] = digits[bits & 63];
		}
		made->raw[length++] = '\r';
		made->raw[length++] = '\n';
	}
	return length + (size_t)snprintf(made->raw + length, RAW_MAX - length, "--part--\r\n");
}

static size_t write_head(made_mail *made, bool attachment)
{
	char date[64];
	struct tm parts;
	time_t at = (time_t)made->date_s;
	gmtime_r(&at, &parts);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S +0000", &parts);
	size_t length = (size_t)snprintf(
		made->raw, RAW_MAX, "From: %s\r\nTo: %s\r\nSubject: %s\r\nDate: %s\r\nMessage-ID: <%s>\r\n",
		made->from, made->to, made->subject, date, made->id);
	weir_span rest = {made->references, strlen(made->references)};
	while (rest.length > 0) {
		size_t id = strcspn(rest.at, " ");
		length += (size_t)snprintf(made->raw + length, RAW_MAX - length, "%s<%.*s>\r\n",
					   rest.at == made->references ? "References: " : " ", (int)id,
					   rest.at);
		size_t taken = rest.at[id] == ' ' ? id + 1 : id;
		rest = (weir_span){rest.at + taken, rest.length - taken};
	}
	const char *type = attachment ? "multipart/mixed; boundary=part\r\n\r\n--part\r\nContent-Type: " : "";
	return length +
	       (size_t)snprintf(made->raw + length, RAW_MAX - length,
				"MIME-Version: 1.0\r\nContent-Type: %stext/plain; charset=utf-8\r\n\r\n",
				type);
}

static size_t write_raw(made_mail *made, size_t text, bool attachment)
{
	size_t length = write_head(made, attachment);
	for (size_t i = 0; i < text; i++) {
		if (made->text[i] == '\n')
			made->raw[length++] = '\r';
		made->raw[length++] = made->text[i];
	}
	length += (size_t)snprintf(made->raw + length, RAW_MAX - length, "\r\n");
	return attachment ? write_attachment(made, length) : length;
}

const store_mail *made_mail_next(made_mail *made)
{
	unsigned author = zipf(&made->random, PEOPLE), reader = zipf(&made->random, PEOPLE);
	bool attachment = weir_random_below(&made->random, 8) == 0;
	made->number++;
	made->date_s += (int64_t)weir_random_exponential(&made->random, 2400);
	snprintf(made->from, sizeof(made->from), "%s <%s>", made->people[author], made->addresses[author]);
	snprintf(made->to, sizeof(made->to), "%s <%s>", made->people[reader], made->addresses[reader]);
	snprintf(made->id, sizeof(made->id), "%llu.%llx@example.org", (unsigned long long)made->number,
		 (unsigned long long)made->seed);
	make_thread(made);
	size_t text = make_text(made);
	made->bytes = (weir_span){made->raw, write_raw(made, text, attachment)};
	made->mail = (store_mail){
		.head = {.from = {made->from, strlen(made->from)},
			 .author = {made->people[author], strlen(made->people[author])},
			 .subject = {made->subject, strlen(made->subject)},
			 .to = {made->to, strlen(made->to)},
			 .snippet = {made->text, text < 200 ? text : 200},
			 .message_id = {made->id, strlen(made->id)},
			 .date_s = made->date_s,
			 .flags = (attachment ? STORE_ATTACHMENT : 0u) |
				  (weir_random_below(&made->random, 10) < 8 ? STORE_SEEN : 0u)},
		.text = {made->text, text},
		.sort_subject = {made->sort_subject, strlen(made->sort_subject)},
		.references = {made->references, strlen(made->references)},
		.raw = mail_from_memory(made->bytes.at, made->bytes.length),
		.now_s = made->date_s,
	};
	remember(made);
	return &made->mail;
}

weir_span made_mail_raw(const made_mail *made)
{
	return made->bytes;
}

unsigned made_folder_size(uint64_t seed, unsigned user, unsigned largest)
{
	weir_random random;
	weir_random_init(&random, seed * 1000003 + user);
	if (user == 0)
		return largest;
	unsigned size = (unsigned)pow(largest + 1.0, weir_random_unit(&random));
	return size < largest ? size : largest;
}
