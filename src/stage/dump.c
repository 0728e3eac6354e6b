/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "base/error.h"
#include "stage/runtime.h"

/* jansson's setters fail on NULL (out of memory). `failed` collects that, to be checked once at the end. */
static void put(json_t *object, const char *key, json_t *value, int *failed)
{
	*failed |= json_object_set_new(object, key, value);
}

static void put_count(json_t *object, const char *key, uint64_t count, int *failed)
{
	put(object, key, json_integer((json_int_t)count), failed);
}

static json_t *dump_by_verdict(const uint64_t *counts, int *failed)
{
	json_t *object = json_object();
	for (unsigned why = 0; why < WEIR_VERDICT_COUNT; why++)
		if (counts[why] != 0)
			put_count(object, weir_verdict_name((weir_verdict)why), counts[why], failed);
	return object;
}

static json_t *dump_quantiles(const weir_stage *stage, unsigned klass, weir_measure measure, int *failed)
{
	static const struct {
		const char *name;
		double quantile;
	} wanted[] = {{"p50", .5}, {"p90", .9}, {"p99", .99}, {"p99_9", .999}};
	json_t *object = json_object();
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		put_count(object, wanted[i].name,
			  weir_stage_quantile(stage, klass, measure, wanted[i].quantile), failed);
	return object;
}

/* One class, or all classes together, into an object that already says whose they are. */
static void dump_counts(const weir_stage *stage, unsigned klass, json_t *object, int *failed)
{
	weir_stage_stats stats;
	weir_stage_read(stage, klass, &stats);
	put_count(object, "offered", stats.offered, failed);
	put_count(object, "admitted", stats.admitted, failed);
	put_count(object, "shed", stats.shed, failed);
	put_count(object, "completed", stats.completed, failed);
	put_count(object, "late", stats.late, failed);
	put_count(object, "failed", stats.failed, failed);
	put_count(object, "dropped", stats.dropped, failed);
	put_count(object, "in_flight", stats.in_flight, failed);
	put(object, "shed_by", dump_by_verdict(stats.by_verdict, failed), failed);
	put(object, "dropped_by", dump_by_verdict(stats.drops, failed), failed);
	put(object, "spared_by", dump_by_verdict(stats.spared, failed), failed);
	put(object, "waiting_ns", dump_quantiles(stage, klass, WEIR_WAITING, failed), failed);
	put(object, "service_ns", dump_quantiles(stage, klass, WEIR_SERVICE, failed), failed);
	put(object, "response_ns", dump_quantiles(stage, klass, WEIR_RESPONSE, failed), failed);
}

static json_t *dump_classes(const weir_stage *stage, int *failed)
{
	json_t *array = json_array();
	for (unsigned klass = 0; klass < WEIR_CLASSES; klass++) {
		weir_stage_stats stats;
		weir_stage_read(stage, klass, &stats);
		if (stats.offered == 0)
			continue;
		json_t *object = json_object();
		put_count(object, "class", klass, failed);
		dump_counts(stage, klass, object, failed);
		*failed |= json_array_append_new(array, object);
	}
	return array;
}

static json_t *dump_faults(const weir_stage *stage, int *failed)
{
	static const char *const names[] = {
#define WEIR_X(name, text) #name,
		WEIR_FAULTS(WEIR_X)
#undef WEIR_X
	};
	json_t *object = json_object();
	for (unsigned fault = 0; fault < WEIR_FAULT_COUNT; fault++) {
		uint64_t count = weir_stage_faults(stage, (weir_fault)fault);
		if (count != 0)
			put_count(object, names[fault], count, failed);
	}
	return object;
}

static json_t *dump_stage(const weir_stage *stage, int *failed)
{
	weir_gate *gate = atomic_load_explicit(&stage->gate, memory_order_acquire);
	weir_stage_stats stats;
	weir_stage_read(stage, WEIR_ALL_CLASSES, &stats);
	json_t *object = json_object();
	put(object, "name", json_string(stage->name), failed);
	put(object, "domain", json_string(stage->domain->name), failed);
	put(object, "law", gate != NULL && !gate->bare ? json_string(gate->law->name) : json_null(), failed);
	put(object, "closed", json_boolean(atomic_load(&stage->closed) || atomic_load(&stage->retiring)),
	    failed);
	put_count(object, "capacity", stage->options.capacity, failed);
	put_count(object, "batch", atomic_load(&stage->lanes[0].batch), failed);
	put_count(object, "waiting", stats.waiting, failed);
	put_count(object, "inlined", stats.inlined, failed);
	put_count(object, "batches", stats.batches, failed);
	dump_counts(stage, WEIR_ALL_CLASSES, object, failed);
	put(object, "classes", dump_classes(stage, failed), failed);
	put(object, "faults", dump_faults(stage, failed), failed);
	return object;
}

static json_t *dump_domain(const weir_domain *domain, int *failed)
{
	json_t *object = json_object();
	bool reactor = domain->options.kind == WEIR_REACTOR;
	put(object, "name", json_string(domain->name), failed);
	put(object, "kind", json_string(reactor ? "reactor" : "elastic"), failed);
	put_count(object, "threads", weir_domain_threads(domain), failed);
	if (reactor) {
		const weir_loop *loop = domain->threads[0].loop;
		put(object, "loop", json_string(loop != NULL ? weir_loop_backend(loop) : "virtual"), failed);
	} else {
		put_count(object, "min_threads", domain->options.min_threads, failed);
		put_count(object, "max_threads", domain->options.max_threads, failed);
		put(object, "law", json_string(domain->options.pool->name), failed);
	}
	return object;
}

/* Calls fn for every edge that events have taken; from is NULL for those from outside. */
static void each_edge(const weir_world *world,
		      void (*fn)(const weir_stage *from, const weir_stage *to, uint64_t count, void *arg),
		      void *arg)
{
	uint32_t stages = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < stages; i++) {
		const weir_stage *to = weir_world_stage(world, i);
		for (uint32_t k = 0; to != NULL && k <= stages; k++) {
			const weir_stage *from = k != 0 ? weir_world_stage(world, k - 1) : NULL;
			uint64_t count = from != NULL || k == 0 ? weir_edge_count(from, to) : 0;
			if (count != 0)
				fn(from, to, count, arg);
		}
	}
}

typedef struct edge_list {
	json_t *array;
	int *failed;
} edge_list;

static void dump_edge(const weir_stage *from, const weir_stage *to, uint64_t count, void *arg)
{
	edge_list *list = arg;
	json_t *object = json_object();
	put(object, "from", from != NULL ? json_string(from->name) : json_null(), list->failed);
	put(object, "to", json_string(to->name), list->failed);
	put_count(object, "count", count, list->failed);
	*list->failed |= json_array_append_new(list->array, object);
}

static json_t *dump_trace(const weir_world *world, int *failed)
{
	weir_trace_entry entries[256];
	size_t count = weir_trace_read(world, entries, 256);
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++) {
		json_t *object = json_object();
		char step[2] = {(char)entries[i].step, '\0'};
		put_count(object, "at_ns", entries[i].at_ns, failed);
		put_count(object, "event", entries[i].event, failed);
		put_count(object, "class", entries[i].klass, failed);
		put(object, "stage", json_string(weir_trace_stage(world, &entries[i])), failed);
		put(object, "step", json_string(step), failed);
		if (entries[i].step == 's' || entries[i].step == 'x')
			put(object, "why", json_string(weir_verdict_name(entries[i].verdict)), failed);
		*failed |= json_array_append_new(array, object);
	}
	return array;
}

static json_t *dump_world(const weir_world *world, int *failed)
{
	json_t *root = json_object(), *domains = json_array(), *stages = json_array(), *edges = json_array();
	put(root, "version", json_string(weir_version()), failed);
	put_count(root, "now_ns", weir_world_now(world), failed);
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		const weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL)
			*failed |= json_array_append_new(domains, dump_domain(domain, failed));
	}
	uint32_t count = atomic_load_explicit(&world->stage_count, memory_order_acquire);
	for (uint32_t i = 0; i < count; i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		if (stage != NULL)
			*failed |= json_array_append_new(stages, dump_stage(stage, failed));
	}
	each_edge(world, dump_edge, &(edge_list){edges, failed});
	put(root, "domains", domains, failed);
	put(root, "stages", stages, failed);
	put(root, "edges", edges, failed);
	put(root, "trace", dump_trace(world, failed), failed);
	return root;
}

int weir_dump(const weir_world *world, FILE *to)
{
	int failed = 0;
	const weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter((weir_world *)world, self);
	json_t *root = dump_world(world, &failed);
	weir_outsider_leave((weir_world *)world, self, side);
	if (failed != 0)
		failed = weir_error_set(-ENOMEM, "dump: out of memory");
	else if (json_dumpf(root, to, JSON_INDENT(2) | JSON_PRESERVE_ORDER) != 0 || fputc('\n', to) == EOF)
		failed = weir_error_set(-EIO, "dump: it could not be written");
	json_decref(root);
	return failed;
}

/* ---- DOT ---- */

/* Names come from the user: quotes and backslashes in them must not end the string. */
static void write_quoted(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputc('"', to);
}

static void write_edge(const weir_stage *from, const weir_stage *to, uint64_t count, void *arg)
{
	FILE *out = arg;
	fputc('\t', out);
	write_quoted(out, from != NULL ? from->name : "outside");
	fputs(" -> ", out);
	write_quoted(out, to->name);
	fprintf(out, " [label=\"%" PRIu64 "\"];\n", count);
}

/* Walks the world's stages: the domain's own list changes under its lock. */
static void write_domain(const weir_world *world, const weir_domain *domain, FILE *to)
{
	fprintf(to, "\tsubgraph cluster_%u {\n\t\tlabel=", domain->index);
	write_quoted(to, domain->name);
	fputs(";\n", to);
	for (uint32_t i = 0; i < atomic_load(&world->stage_count); i++) {
		const weir_stage *stage = weir_world_stage(world, i);
		if (stage == NULL || stage->domain != domain)
			continue;
		fputs("\t\t", to);
		write_quoted(to, stage->name);
		fputs(";\n", to);
	}
	fputs("\t}\n", to);
}

int weir_dump_graph(const weir_world *world, FILE *to)
{
	const weir_thread *self = weir_thread_in(world);
	unsigned side = weir_outsider_enter((weir_world *)world, self);
	fputs("digraph weir {\n\trankdir=LR;\n\tnode [shape=box];\n", to);
	for (uint32_t i = 0; i < atomic_load(&world->domain_count); i++) {
		const weir_domain *domain = weir_world_domain(world, i);
		if (domain != NULL)
			write_domain(world, domain, to);
	}
	each_edge(world, write_edge, to);
	fputs("}\n", to);
	weir_outsider_leave((weir_world *)world, self, side);
	return ferror(to) ? weir_error_set(-EIO, "graph: it could not be written") : 0;
}
