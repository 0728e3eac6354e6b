/* SPDX-License-Identifier: Apache-2.0 */
#include "net/transmit_heap.h"

/* Both are roots without siblings, or NULL. */
static weir_transmit_node *meld(weir_transmit_node *a, weir_transmit_node *b)
{
	if (a == NULL || b == NULL)
		return a != NULL ? a : b;
	if (b->key < a->key) {
		weir_transmit_node *swap = a;
		a = b;
		b = swap;
	}
	b->before = a;
	b->next = a->child;
	if (b->next != NULL)
		b->next->before = b;
	a->child = b;
	return a;
}

/* Melds a list of siblings into one: in pairs from the left, then the pairs from the right. */
static weir_transmit_node *meld_all(weir_transmit_node *list)
{
	weir_transmit_node *pairs = NULL, *all = NULL;
	while (list != NULL) {
		weir_transmit_node *a = list, *b = a->next;
		list = b != NULL ? b->next : NULL;
		a->next = a->before = NULL;
		if (b != NULL)
			b->next = b->before = NULL;
		a = meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	while (pairs != NULL) {
		weir_transmit_node *pair = pairs;
		pairs = pair->next;
		pair->next = NULL;
		all = meld(all, pair);
	}
	return all;
}

void weir_transmit_heap_push(weir_transmit_heap *heap, weir_transmit_node *node, double key)
{
	*node = (weir_transmit_node){.key = key};
	heap->top = meld(heap->top, node);
	heap->count++;
}

void weir_transmit_heap_remove(weir_transmit_heap *heap, weir_transmit_node *node)
{
	weir_transmit_node *rest = meld_all(node->child);
	heap->count--;
	if (node == heap->top) {
		heap->top = rest;
		return;
	}
	if (node->before->child == node)
		node->before->child = node->next;
	else
		node->before->next = node->next;
	if (node->next != NULL)
		node->next->before = node->before;
	heap->top = meld(heap->top, rest);
}
