/* SPDX-License-Identifier: Apache-2.0 */
/* Until the real one is merged: a few lines of report. */
#include "load/report.h"
bool load_fell_behind(const load_story *s) { return s->tally->all.late * 100 > s->tally->all.sent || s->tally->unsent > 0; }
int load_report_text(FILE *out, const load_story *s, bool colour)
{
	const load_group *g = &s->tally->all;
	double d = (double)s->length_ns / 1e9;
	fprintf(out, "%.3f s sent %lu ok %lu shed %lu err %lu timeout %lu aborted %lu open %lu unsent %lu late %lu\n", d, g->sent, g->ended[0], g->ended[1], g->ended[2], g->ended[3], g->ended[4], s->tally->open, s->tally->unsent, g->late);
	fprintf(out, "ok/s %.0f  cpu %.3f  ok per cpu s %.0f\n", (double)g->ended[0] / d, s->client_cpu_s, (double)g->ended[0] / s->client_cpu_s);
	fprintf(out, "p50 %.3f p99 %.3f max %.3f ms; send error p99 %.3f ms\n", (double)weir_hist_quantile(&g->response, .5)/1e6, (double)weir_hist_quantile(&g->response, .99)/1e6, (double)g->response_max_ns/1e6, (double)weir_hist_quantile(&s->tally->send_error, .99)/1e6);
	return 0;
}
int load_report_json(FILE *out, const load_story *s) { return load_report_text(out, s, 0); }
int load_report_json_runs(FILE *out, const load_story *s, unsigned c) { return 0; }
int load_report_csv(FILE *out, const load_story *s) { return 0; }
int load_report_svg(FILE *out, const load_story *s) { return 0; }
int load_screen_open(FILE *out, bool t, load_screen **ret) { *ret = NULL; return 0; }
void load_screen_draw(load_screen *screen, const load_story *s) {}
void load_screen_close(load_screen **screen) {}
