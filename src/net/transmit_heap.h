/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_TRANSMIT_HEAP_H
#define WEIR_NET_TRANSMIT_HEAP_H

/*
 * A heap whose nodes are part of what they order, so that adding one needs no memory and cannot fail. It is a
 * pairing heap: push takes O(1); taking the smallest or removing any node takes O(log n) on average over many
 * calls. Nodes with equal keys come in no particular order.
 *
 * The key of a node in the heap must not change: remove it, then push it again.
 *
 * Threads: one.
 */

#include <stddef.h>

typedef struct weir_transmit_node {
	double key;
	struct weir_transmit_node *child;  /* the first one */
	struct weir_transmit_node *next;   /* sibling */
	struct weir_transmit_node *before; /* sibling, or the parent of a first child; NULL: the root */
} weir_transmit_node;

typedef struct weir_transmit_heap {
	weir_transmit_node *top; /* the smallest key; NULL: empty */
	size_t count;
} weir_transmit_heap;

void weir_transmit_heap_push(weir_transmit_heap *heap, weir_transmit_node *node, double key);
/* The node must be in this heap. */
void weir_transmit_heap_remove(weir_transmit_heap *heap, weir_transmit_node *node);

#endif
