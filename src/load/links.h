/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOAD_LINKS_H
#define WEIR_LOAD_LINKS_H

/*
 * Links in pages. This is no HTML parser: it looks for the attributes href and src within a tag ("<" to
 * ">"; comments are skipped), quoted or not, with &amp; read as '&'. A link is resolved against the page,
 * without its fragment and dots. It counts if it leads to the same server by http(s), and to another
 * target than the page itself.
 *
 * Threads: any; no state.
 */

#include <stdbool.h>
#include <weir/http.h>
#include <weir/random.h>

#define LOAD_LINK_MAX    512   /* bytes of a link; longer ones are ignored */
#define LOAD_LINKS_MAX   1000  /* links of a page that are considered */
#define LOAD_LINKS_BYTES 65536 /* bytes of a page that are searched */

/* Draws one of the page's links, all equally likely. target: the page's own. false: there is none. */
bool load_link_draw(weir_span page, weir_span target, const char *origin, weir_random *random,
		    char ret_target[LOAD_LINK_MAX + 1]);
/*
 * Resolves a link, as written, to a target of this server; false: it leads elsewhere, or nowhere, or is
 * too long.
 */
bool load_link_resolve(weir_span link, weir_span base, const char *origin,
		       char ret_target[LOAD_LINK_MAX + 1]);

#endif
