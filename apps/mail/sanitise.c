/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser's tree is in an arena that is freed as a whole. Two reasons: the parser does not expect malloc to
 * fail, so the arena leaves it by longjmp when its budget is used up; and the parser frees a tree by recursion,
 * which a deep one would turn into a stack overflow. For the same reason the walk has a stack of its own.
 *
 * Budgets are needed because HTML5 asks for them: formatting elements that are never closed are repeated in
 * every later block, and each attribute of a tag is compared with all before it.
 */
#include "sanitise.h"
#include "sanitise_rules.h"

#include <errno.h>
#include <glib.h>
#include <gumbo.h>
#include <setjmp.h>
#include <string.h>
#include <time.h>

#define OUTPUT_MAX  (8u << 20)
#define CHUNK_BYTES (256u << 10)
#define CPU_NS_MAX  WEIR_NS_PER_S
#define VALUE_MAX   2000u /* bytes of an attribute that is kept */

/* ---- the arena ---- */

typedef struct arena_chunk {
	struct arena_chunk *next;
	max_align_t bytes[];
} arena_chunk;

typedef struct sanitise_arena {
	arena_chunk *chunks;
	char *at;
	size_t left;
	size_t total;
	unsigned calls;
	uint64_t until_ns; /* of this thread's processor time */
	jmp_buf exhausted;
} sanitise_arena;

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * WEIR_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void arena_grow(sanitise_arena *a, size_t size)
{
	size_t bytes = size > CHUNK_BYTES ? size : CHUNK_BYTES;
	arena_chunk *chunk = a->total + bytes <= SANITISE_MEMORY_MAX ? malloc(sizeof(*chunk) + bytes) : NULL;
	if (chunk == NULL)
		longjmp(a->exhausted, 1);
	chunk->next = a->chunks;
	a->chunks = chunk;
	a->total += bytes;
	a->at = (char *)chunk->bytes;
	a->left = bytes;
}

static void *arena_alloc(void *arg, size_t size)
{
	sanitise_arena *a = arg;
	if ((++a->calls & 63) == 0 && cpu_ns() > a->until_ns)
		longjmp(a->exhausted, 1);
	size = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	if (size > SANITISE_MEMORY_MAX)
		longjmp(a->exhausted, 1);
	if (size > a->left)
		arena_grow(a, size);
	void *result = a->at;
	a->at += size;
	a->left -= size;
	return result;
}

static void arena_forget(void *arg, void *block)
{
}

static void arena_free(sanitise_arena *a)
{
	while (a->chunks != NULL) {
		arena_chunk *chunk = a->chunks;
		a->chunks = chunk->next;
		free(chunk);
	}
}

/* ---- parsing ---- */

/* How much of the input is read: up to the bound of bytes, or of tags. Every '<' counts, which is on the safe side. */
static size_t clip(const char *html, size_t length)
{
	size_t end = length < SANITISE_BYTES_MAX ? length : SANITISE_BYTES_MAX;
	const char *at = html;
	for (unsigned tags = 0; (at = memchr(at, '<', end - (size_t)(at - html))) != NULL; at++)
		if (++tags > SANITISE_TAGS_MAX)
			return (size_t)(at - html);
	return end;
}

/* NULL: the budget is used up. The tree lives in the arena. */
static const GumboNode *parse(sanitise_arena *a, const char *html, size_t length)
{
	GumboOptions options = kGumboDefaultOptions;
	options.allocator = arena_alloc;
	options.deallocator = arena_forget;
	options.userdata = a;
	options.max_errors = 0;
	a->until_ns = cpu_ns() + CPU_NS_MAX;
	if (setjmp(a->exhausted) != 0)
		return NULL;
	return gumbo_parse_with_options(&options, html, length)->root;
}

/* ---- walking ---- */

typedef struct walk_step {
	const GumboNode *node;
	unsigned next; /* child */
	bool tags;     /* its start tag was written */
} walk_step;

typedef struct sanitise_walk {
	const sanitise_options *options; /* NULL: only text is wanted */
	GString *out;
	size_t max;
	unsigned depth; /* of tags that are open in the output */
	unsigned blocked;
	bool clipped;
	unsigned preformatted;
} sanitise_walk;

static void write_escaped(GString *out, const char *text)
{
	for (const char *at = text; *at != '\0'; at++) {
		switch (*at) {
		case '<':
			g_string_append(out, "&lt;");
			break;
		case '>':
			g_string_append(out, "&gt;");
			break;
		case '&':
			g_string_append(out, "&amp;");
			break;
		case '"':
			g_string_append(out, "&quot;");
			break;
		case '\'':
			g_string_append(out, "&#39;");
			break;
		case '`':
			g_string_append(out, "&#96;");
			break;
		default:
			if ((unsigned char)*at >= ' ' || *at == '\n' || *at == '\t')
				g_string_append_c(out, *at);
		}
	}
}

static void write_attribute(GString *out, const char *name, const char *value)
{
	g_string_append_printf(out, " %s=\"", name);
	write_escaped(out, value);
	g_string_append_c(out, '"');
}

static void write_link(GString *out, const char *value)
{
	char url[SANITISE_URL_MAX];
	sanitise_scheme scheme = sanitise_url(value, url, sizeof(url));
	if (scheme != SANITISE_WEB && scheme != SANITISE_PERSON)
		return;
	write_attribute(out, "href", url);
	g_string_append(out, " target=\"_blank\" rel=\"noopener noreferrer nofollow\"");
}

static void write_image(sanitise_walk *w, const char *value)
{
	char url[SANITISE_URL_MAX], part[SANITISE_URL_MAX];
	sanitise_scheme scheme = sanitise_url(value, url, sizeof(url));
	if (scheme == SANITISE_PART && w->options->find != NULL &&
	    w->options->find(w->options->arg, url + strlen("cid:"), part, sizeof(part)))
		write_attribute(w->out, "src", part);
	if (scheme != SANITISE_WEB)
		return;
	if (w->options->remote) {
		write_attribute(w->out, "src", url);
		g_string_append(w->out, " referrerpolicy=\"no-referrer\"");
	} else {
		w->blocked++;
	}
}

static void write_attributes(sanitise_walk *w, const GumboElement *element)
{
	for (unsigned i = 0; i < element->attributes.length; i++) {
		const GumboAttribute *attribute = element->attributes.data[i];
		if (attribute->attr_namespace != GUMBO_ATTR_NAMESPACE_NONE)
			continue;
		if (strcmp(attribute->name, "href") == 0 && element->tag == GUMBO_TAG_A) {
			write_link(w->out, attribute->value);
		} else if (strcmp(attribute->name, "src") == 0 && element->tag == GUMBO_TAG_IMG) {
			write_image(w, attribute->value);
		} else if (strlen(attribute->value) > VALUE_MAX) {
			continue;
		} else if (strcmp(attribute->name, "style") == 0) {
			char style[VALUE_MAX + 2];
			if (sanitise_style(attribute->value, style, sizeof(style)))
				write_attribute(w->out, "style", style);
		} else if (sanitise_attribute_allowed(attribute->name)) {
			write_attribute(w->out, attribute->name, attribute->value);
		}
	}
}

/* ---- text ---- */

/* A line break, unless one is there; blank lines do not add up. */
static void text_break(sanitise_walk *w)
{
	while (w->out->len > 0 && w->out->str[w->out->len - 1] == ' ')
		g_string_truncate(w->out, w->out->len - 1);
	if (w->out->len > 0 && !g_str_has_suffix(w->out->str, "\n\n"))
		g_string_append_c(w->out, '\n');
}

static void text_append(sanitise_walk *w, const char *text)
{
	for (const char *at = text; *at != '\0'; at++) {
		bool blank = strchr(" \t\r\n\f", *at) != NULL;
		bool after_blank = w->out->len == 0 || strchr(" \n", w->out->str[w->out->len - 1]) != NULL;
		if (w->preformatted > 0 && (*at == '\n' || *at == '\t' || !blank))
			g_string_append_c(w->out, *at);
		else if (blank && (!after_blank || w->preformatted > 0))
			g_string_append_c(w->out, ' ');
		else if (!blank && (unsigned char)*at >= ' ')
			g_string_append_c(w->out, *at);
	}
}

/* ---- both ---- */

static void element_begin(sanitise_walk *w, walk_step *step, sanitise_element kind)
{
	const GumboElement *element = &step->node->v.element;
	w->preformatted += element->tag == GUMBO_TAG_PRE;
	if (w->options == NULL) {
		if (kind == SANITISE_BLOCK || element->tag == GUMBO_TAG_BR)
			text_break(w);
		if (element->tag == GUMBO_TAG_TD || element->tag == GUMBO_TAG_TH)
			text_append(w, " ");
		return;
	}
	if (kind == SANITISE_UNWRAPPED)
		return;
	if (w->depth >= SANITISE_DEPTH_MAX) {
		w->clipped = true;
		return;
	}
	g_string_append_printf(w->out, "<%s", gumbo_normalized_tagname(element->tag));
	write_attributes(w, element);
	g_string_append_c(w->out, '>');
	if (kind != SANITISE_VOID) {
		step->tags = true;
		w->depth++;
	}
}

static void element_end(sanitise_walk *w, const walk_step *step, sanitise_element kind)
{
	const GumboElement *element = &step->node->v.element;
	w->preformatted -= element->tag == GUMBO_TAG_PRE;
	if (w->options == NULL && kind == SANITISE_BLOCK)
		text_break(w);
	if (!step->tags)
		return;
	g_string_append_printf(w->out, "</%s>", gumbo_normalized_tagname(element->tag));
	w->depth--;
}

static bool is_kept(const GumboNode *node)
{
	return node->type == GUMBO_NODE_ELEMENT && node->v.element.tag_namespace == GUMBO_NAMESPACE_HTML &&
	       sanitise_element_kind(node->v.element.tag) != SANITISE_DROPPED;
}

static void write_text(sanitise_walk *w, const GumboNode *node)
{
	if (node->type != GUMBO_NODE_TEXT && node->type != GUMBO_NODE_WHITESPACE)
		return;
	if (w->options == NULL)
		text_append(w, node->v.text.text);
	else
		write_escaped(w->out, node->v.text.text);
}

static void walk_tree(sanitise_walk *w, const GumboNode *root)
{
	GArray *stack = g_array_new(FALSE, TRUE, sizeof(walk_step));
	walk_step top = {.node = root};
	if (is_kept(root))
		g_array_append_val(stack, top);
	while (stack->len > 0) {
		walk_step *step = &g_array_index(stack, walk_step, stack->len - 1);
		const GumboElement *element = &step->node->v.element;
		sanitise_element kind = sanitise_element_kind(element->tag);
		if (step->next == 0)
			element_begin(w, step, kind);
		if (step->next >= element->children.length || w->out->len > w->max) {
			element_end(w, step, kind);
			g_array_set_size(stack, stack->len - 1);
			continue;
		}
		const GumboNode *child = element->children.data[step->next++];
		walk_step next = {.node = child};
		if (is_kept(child))
			g_array_append_val(stack, next);
		else
			write_text(w, child);
	}
	g_array_free(stack, TRUE);
}

static int run(sanitise_walk *w, const char *html, size_t length)
{
	sanitise_arena arena = {0};
	size_t end = clip(html, length);
	const GumboNode *root = parse(&arena, html, end);
	int error = 0;
	if (root == NULL)
		error = weir_error_set(-E2BIG, "the HTML takes too much memory or time to read");
	else
		walk_tree(w, root);
	arena_free(&arena);
	w->clipped = w->clipped || end < length || w->out->len > w->max;
	return error;
}

int sanitise_html(const char *html, size_t length, const sanitise_options *options,
		  sanitise_result *ret_result)
{
	sanitise_walk w = {.options = options, .out = g_string_sized_new(length + 64), .max = OUTPUT_MAX};
	int error = run(&w, html, length);
	if (error != 0) {
		g_string_free(w.out, TRUE);
		return error;
	}
	ret_result->length = w.out->len;
	ret_result->blocked = w.blocked;
	ret_result->clipped = w.clipped;
	ret_result->html = g_string_free(w.out, FALSE);
	return 0;
}

int sanitise_text(const char *html, size_t length, size_t max, char **ret_text)
{
	sanitise_walk w = {.out = g_string_new(NULL), .max = max};
	int error = run(&w, html, length);
	if (error != 0) {
		g_string_free(w.out, TRUE);
		return error;
	}
	if (w.out->len > max) {
		size_t end = max;
		while (end > 0 && ((unsigned char)w.out->str[end] & 0xc0) == 0x80) /* not within a letter */
			end--;
		g_string_truncate(w.out, end);
	}
	*ret_text = g_strchomp(g_string_free(w.out, FALSE));
	return 0;
}
