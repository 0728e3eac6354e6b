/* SPDX-License-Identifier: Apache-2.0 */
#include "net/net.h"

#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/acceptor.h"
#include "net/conn_priv.h"
#include "net/transmit_priv.h"

/* Free buffers that a loop keeps: enough for a burst, and 1 MB of each at most, so that a flood leaves little. */
#define READS_KEPT  64
#define WRITES_KEPT 256

/* Maximum number of turns to release everything: cancellations come back in one or two. */
#define END_TURNS 1000

static void end_net(weir_loop_part *part)
{
	weir_net *net = (weir_net *)(void *)part;
	weir_acceptor *next;
	for (weir_acceptor *acceptor = net->acceptors; acceptor != NULL; acceptor = next) {
		next = acceptor->next;
		weir_acceptor_abort(acceptor);
	}
	for (int i = 0; i < END_TURNS && (net->all != NULL || net->acceptors != NULL); i++) {
		for (weir_conn *conn = net->all; conn != NULL; conn = conn->next)
			weir_conn_abort(conn, -ECANCELED);
		weir_loop_turn(net->loop, WEIR_NS_PER_MS);
	}
}

static void free_net(weir_loop_part *part)
{
	weir_net *net = (weir_net *)(void *)part;
	while (net->all != NULL)
		weir_conn_strand(net->all);
	weir_transmit_lane_free(net->lane);
	net->io->fini(net);
	weir_buf_pool_close(&net->reads);
	weir_buf_pool_close(&net->output.copies);
	weir_pipes_fini(&net->pipes);
	weir_pool_fini(&net->conns);
	weir_pool_fini(&net->blocks);
	weir_mem_free(net);
}

static void run_over(weir_deferred *deferred)
{
	weir_net *net = (weir_net *)(void *)((char *)deferred - offsetof(weir_net, over));
	net->over_queued = false;
	weir_output_run_over(&net->output);
}

void weir_net_tell_over(weir_net *net)
{
	if (net->output.over == NULL || net->over_queued)
		return;
	net->over_queued = true;
	weir_loop_defer(net->loop, &net->over);
}

static int make_net(weir_loop *loop, weir_net **ret_net)
{
	weir_net *net = weir_mem_zalloc(sizeof(*net));
	if (net == NULL)
		return -ENOMEM;
	net->part = (weir_loop_part){.end = end_net, .free = free_net};
	net->loop = loop;
	net->over.run = run_over;
	net->io = weir_uring_is(loop) ? &weir_io_uring : &weir_io_epoll;
	weir_pool_init(&net->conns, sizeof(weir_conn));
	weir_pool_init(&net->blocks, sizeof(weir_output_block));
	net->reads = weir_buf_pool_new(loop, WEIR_BUF_READ_BYTES, READS_KEPT);
	net->output =
		(weir_output_source){.blocks = &net->blocks,
				     .copies = weir_buf_pool_new(loop, WEIR_BUF_WRITE_BYTES, WRITES_KEPT),
				     .pipes = &net->pipes};
	int error = net->reads != NULL && net->output.copies != NULL ? net->io->init(net) : -ENOMEM;
	if (error != 0) {
		weir_buf_pool_close(&net->reads);
		weir_buf_pool_close(&net->output.copies);
		weir_mem_free(net);
		return error;
	}
	*ret_net = net;
	return 0;
}

void weir_net_slim(weir_loop *loop)
{
	weir_net *net = (weir_net *)(void *)weir_loop_part_of(loop, WEIR_LOOP_NET);
	if (net == NULL)
		return;
	weir_buf_pool_slim(net->reads);
	weir_buf_pool_slim(net->output.copies);
	if (net->io == &weir_io_uring)
		weir_buf_ring_slim(&net->ring);
}

int weir_net_of(weir_loop *loop, weir_net **ret_net)
{
	weir_net *net = (weir_net *)(void *)weir_loop_part_of(loop, WEIR_LOOP_NET);
	if (net == NULL) {
		int error = make_net(loop, &net);
		if (error != 0)
			return weir_error_set(error, "sockets on a loop: cannot set up its buffers");
		weir_loop_set_part(loop, WEIR_LOOP_NET, &net->part);
	}
	*ret_net = net;
	return 0;
}
