/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_LINKS_H
#define WEIR_LOAD_LINKS_H

/*
 * Links in pages. No parser of HTML: within a tag ("<" to ">"; comments are passed over) the attributes href and src, in quotes or not, with &amp; read as '&'. A link is resolved against
 * the page, loses its fragment and its dots, and counts if it leads to the same server by http(s) and to somewhere else than the page itself.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <weir/http.h>
#include <weir/random.h>

#define LOAD_LINK_MAX    512   /* bytes of a link; longer ones are not followed */
#define LOAD_LINKS_MAX   1000  /* links of a page that are looked at */
#define LOAD_LINKS_BYTES 65536 /* of a page that are looked at */

/* One of the page's links, each with the same chance. target: what was asked for. false: there is none. */
bool load_link_draw(weir_span page, weir_span target, const char *origin, weir_random *random,
		    char ret_target[LOAD_LINK_MAX + 1]);
/* A link as written, as a target of this server; false: it leads elsewhere, or nowhere, or is too long. */
bool load_link_resolve(weir_span link, weir_span base, const char *origin,
		       char ret_target[LOAD_LINK_MAX + 1]);

#endif
