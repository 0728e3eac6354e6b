/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAIL_SANITISE_RULES_H
#define MAIL_SANITISE_RULES_H

/*
 * The allow-lists of the sanitiser: elements, attributes, schemes of URLs, properties of styles. They are pure
 * functions of their arguments. Threads: any.
 */

#include <weir/base.h>

#define SANITISE_URL_MAX 4000u /* longer ones are left out */

typedef enum sanitise_element {
	SANITISE_UNWRAPPED, /* its tags go, what is in it stays: the default */
	SANITISE_DROPPED,   /* goes with all that is in it */
	SANITISE_INLINE,
	SANITISE_BLOCK,
	SANITISE_VOID, /* has no end tag */
} sanitise_element;

/* What becomes of an element; tag is a GumboTag. */
sanitise_element sanitise_element_kind(int tag);
/* Whether an attribute without URL may stay, on any element. */
bool sanitise_attribute_allowed(const char *name);

typedef enum sanitise_scheme {
	SANITISE_NO_SCHEME, /* not allowed, whatever it is */
	SANITISE_WEB,       /* http, https */
	SANITISE_PERSON,    /* mailto, tel */
	SANITISE_PART,      /* cid; ret_url is "cid:" and the id, decoded */
} sanitise_scheme;

/*
 * Says what a URL is, and writes it as a browser would read it: without blanks around it, and without
 * control characters.
 */
sanitise_scheme sanitise_url(const char *value, char *ret_url, size_t size);

/*
 * Writes those declarations of a style attribute that are known and harmless; size is more than value's
 * length. False: none is.
 */
bool sanitise_style(const char *value, char *ret_style, size_t size);

#endif
