/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LAB_MADE_MAIL_H
#define WEIR_LAB_MADE_MAIL_H

/*
 * Mail that looks like mail, made from a seed: for tests and for the lab. Words and authors are as frequent
 * as in real mail (Zipf), sizes are lognormal, one in eight has an attachment, and nearly half are answers to
 * one of the last messages. The same seed makes the same mail. Mail of every seed has the words word1 to
 * word100, from frequent to rare, which models of users search for. One thread uses a maker.
 */

#include <weir/random.h>

#include "webmail/store.h"

#define MADE_FOLDER_MAX 12794 /* messages of the largest folder, as in the paper */

typedef struct made_mail made_mail;

/* A maker of mail; NULL if there is no memory. Free it with made_mail_free(). */
made_mail *made_mail_new(uint64_t seed);
void made_mail_free(made_mail *made);
/* The next mail; it is valid until the one after. */
const store_mail *made_mail_next(made_mail *made);
/* The last mail as it would come by SMTP; it is valid until the next. */
weir_span made_mail_raw(const made_mail *made);
/* A word that is in about one of `rarity` messages. It is valid as long as the maker. */
const char *made_mail_word(const made_mail *made, unsigned rarity);
/* How many messages the folder of a user has: 1 to largest, log-uniform; user 0 has the largest. */
unsigned made_folder_size(uint64_t seed, unsigned user, unsigned largest);

#endif
