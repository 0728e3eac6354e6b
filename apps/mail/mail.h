/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_MAIL_H
#define MAIL_MAIL_H

/*
 * Reading messages: what a list shows of one, what a page shows of one, and its parts as streams.
 *
 * A message is whatever bytes a stranger sent. No function here crashes, loops or grows without bound on any
 * input; the bounds are below. A message beyond one of them is refused with -E2BIG and a sentence in
 * weir_error, before its structure takes memory. Broken MIME is not refused: what can be read is shown.
 *
 * All text that comes out is valid UTF-8 without NUL, and names and subjects have no control characters.
 * Charsets are those of iconv; bytes that no charset explains become U+FFFD.
 *
 * Threads: mail_init once, by one thread, before all others. Everything else: any thread; a view or a
 * summary belongs to one thread at a time. All of them may compute for milliseconds and read their source,
 * so they are for pool threads and not for reactors.
 */

#include <weir/base.h>

#define MAIL_SENT_BYTES_MAX  (50u << 20)                 /* a whole message, as somebody sends it */
#define MAIL_BYTES_MAX       (MAIL_SENT_BYTES_MAX + 512) /* and with the line of its envelope before it */
#define MAIL_PARTS_MAX       1000u                       /* parts of a message, in all depths */
#define MAIL_DEPTH_MAX       30u                         /* multiparts and messages within each other */
#define MAIL_FIELDS_MAX      10000u                      /* header fields, in all parts together */
#define MAIL_FIELD_BYTES_MAX (128u << 10)                /* one header field */
#define MAIL_NAME_BYTES_MAX  1000u                       /* subjects, names of files: longer ones are cut */
#define MAIL_LIST_BYTES_MAX  16000u                      /* lists of addresses and of references: the same */
#define MAIL_TEXT_BYTES_MAX  (256u << 10)                /* text for the index */
#define MAIL_SHOWN_BYTES_MAX (1u << 20)                  /* a body that is shown, before it is sanitised */
#define MAIL_SNIPPET_BYTES   200u

/* ---- where the bytes of a message come from ---- */

typedef struct mail_source mail_source;

/*
 * Reads up to length bytes at offset. Returns how many, 0 at the end, or a negative errno. It must give the
 * same bytes each time. Reading goes forward mostly, and may go back.
 */
typedef int mail_read_fn(const mail_source *source, uint64_t offset, void *to, size_t length);

struct mail_source {
	mail_read_fn *read;
	uint64_t bytes;     /* in all */
	const void *memory; /* for mail_read_memory */
	int fd;             /* for mail_read_fd */
	void *arg;          /* for readers of your own */
};

/* Reads a message in memory, at source->memory. */
int mail_read_memory(const mail_source *source, uint64_t offset, void *to, size_t length);
/* Reads a message in a file, source->fd, from its beginning. */
int mail_read_fd(const mail_source *source, uint64_t offset, void *to, size_t length);
/* A source of that memory. The memory must stay while the source is in use. */
mail_source mail_from_memory(const void *memory, size_t bytes);
/* A source of that file, which stays the caller's. */
mail_source mail_from_fd(int fd, uint64_t bytes);

/* ---- summaries: what the store keeps of a message beside its bytes ---- */

/* No pointer is NULL; what a message does not have is "". */
typedef struct mail_summary {
	char *from;         /* "Jane Doe <jane@example.org>", the first author only */
	char *author;       /* for lists and sorting: "Jane Doe", or the address where there is no name */
	char *reply_to;     /* where an answer goes: Reply-To, otherwise From; may be several */
	char *to;           /* addresses with names, separated by ", " */
	char *cc;           /* as to */
	char *bcc;          /* as to; drafts have it */
	char *subject;      /* one line */
	char *sort_subject; /* lower case, without "Re:", "Fwd:" and blanks before: for sorting and threads */
	char *message_id;   /* without angle brackets */
	char *references; /* ids without brackets, separated by blanks, the oldest first; In-Reply-To is the last */
	int64_t date_s; /* seconds since 1970, never negative; 0: it has no date, or one that is not readable */
	bool attachments; /* has parts that are not its text */
	char *snippet;    /* the beginning of the text, in one line */
	char *text;       /* for the index, at most MAIL_TEXT_BYTES_MAX, from all its parts of text */
} mail_summary;

/* Prepares the MIME library. */
void mail_init(void);
/* Reads a whole message. 0; -E2BIG: it is over a bound; or what the source said. Free with mail_summary_free. */
int mail_summarise(const mail_source *source, mail_summary **ret_summary);
/* Frees; NULL is ignored. Sets it to NULL. */
void mail_summary_free(mail_summary **summary);

/* ---- views: what a page shows ---- */

typedef struct mail_part {
	unsigned number;  /* for mail_part_read; stays the same for the same message */
	char *type;       /* "image/png", lower case; only letters, digits and !#$&-^_.+/ */
	char *name;       /* of the file, without folders and control characters; "": none */
	char *content_id; /* without angle brackets; "": none */
	uint64_t bytes;   /* decoded, more or less */
	bool inlined;     /* the HTML shows it as an image */
} mail_part;

typedef struct mail_view_options {
	bool text_only; /* no HTML, even if the message has some */
	bool remote;    /* images of other servers may be shown */
	/* What is put before the number of an image that the message contains: "/part/17/". NULL: none is shown. */
	const char *part_prefix;
} mail_view_options;

typedef struct mail_view {
	mail_summary *summary;
	char *text; /* the body as text: always there, made from the HTML if need be */
	char *html; /* the body as sanitised HTML, for a sandboxed frame; NULL: it has none, or text was asked for */
	bool clipped;     /* the body was too long or too deep to be shown as a whole */
	unsigned blocked; /* remote images that are not shown */
	mail_part *parts; /* all but the body; inlined ones too */
	size_t part_count;
} mail_view;

/* Reads a message to show it. As mail_summarise; free with mail_view_free. */
int mail_open(const mail_source *source, const mail_view_options *options, mail_view **ret_view);
/* Frees; NULL is ignored. Sets it to NULL. */
void mail_view_free(mail_view **view);

/* Gets a piece of a part; a nonzero result ends the reading, which returns it. */
typedef int mail_sink_fn(void *arg, const void *bytes, size_t length);

/*
 * Decodes one part into the sink, in pieces of at most 16 KB or so; memory does not grow with the part. begin, if
 * not NULL, is called once before with what the part is. 0; -ENOENT: there is no such part; what the sink
 * or begin returned; else as mail_summarise.
 */
int mail_part_read(const mail_source *source, unsigned number, int (*begin)(void *arg, const mail_part *part),
		   mail_sink_fn *sink, void *arg);

#endif
