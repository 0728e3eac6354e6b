/* SPDX-License-Identifier: Apache-2.0 */
#include "http/h2_memory.h"

#include "http/h2_client_priv.h"

void weir_h2_memory_init(weir_h2_memory *memory)
{
	weir_pool_init(&memory->streams, sizeof(weir_h2_stream));
	weir_pool_init(&memory->parts, sizeof(weir_h2_part));
	weir_pool_init(&memory->asks, sizeof(weir_h2_ask));
	weir_pool_init(&memory->pieces, sizeof(weir_h2_piece));
}

void weir_h2_memory_fini(weir_h2_memory *memory)
{
	weir_pool_fini(&memory->streams);
	weir_pool_fini(&memory->parts);
	weir_pool_fini(&memory->asks);
	weir_pool_fini(&memory->pieces);
}
