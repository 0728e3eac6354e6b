/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/status.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MOST 1e15

/* The number behind a name at the beginning of a line; -1: there is none. */
static double number_at(const char *text, const char *name)
{
	size_t length = strlen(name);
	for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
		double value;
		line += *line == '\n';
		if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %lf", &value) == 1)
			return value >= 0 && value <= NUMBER_MOST ? value : -1;
	}
	return -1;
}

/* Whoever asks is served while it asks. */
static double without_us(double busy)
{
	return busy >= 1 ? busy - 1 : busy;
}

static bool read_apache(const char *text, weir_status *ret_status)
{
	*ret_status = (weir_status){.busy = without_us(number_at(text, "BusyWorkers")),
				    .requests = number_at(text, "Total Accesses"),
				    .waiting = -1,
				    .kind = "apache"};
	return ret_status->busy >= 0;
}

static bool read_nginx(const char *text, weir_status *ret_status)
{
	const char *sums = strstr(text, "server accepts handled requests");
	double requests, reading, writing;
	if (sums == NULL ||
	    sscanf(sums, "server accepts handled requests %*f %*f %lf Reading: %lf Writing: %lf", &requests,
		   &reading, &writing) != 3)
		return false;
	bool sane = requests >= 0 && requests <= NUMBER_MOST && reading >= 0 && writing >= 0 &&
		    reading + writing <= NUMBER_MOST;
	*ret_status = (weir_status){
		.busy = without_us(reading + writing), .requests = requests, .waiting = -1, .kind = "nginx"};
	return sane;
}

static bool read_fpm(const char *text, weir_status *ret_status)
{
	*ret_status = (weir_status){.busy = without_us(number_at(text, "active processes")),
				    .requests = number_at(text, "accepted conn"),
				    .waiting = number_at(text, "listen queue"),
				    .kind = "php-fpm"};
	return ret_status->busy >= 0 && ret_status->requests >= 0;
}

static double member(const json_t *json, const char *name)
{
	const json_t *value = json_object_get(json, name);
	double number = json_number_value(value);
	return json_is_number(value) && number >= 0 && number <= NUMBER_MOST ? number : -1;
}

static bool read_fpm_json(const char *text, size_t length, weir_status *ret_status)
{
	json_t *json = json_loadb(text, length, 0, NULL);
	*ret_status = (weir_status){.busy = without_us(member(json, "active processes")),
				    .requests = member(json, "accepted conn"),
				    .waiting = member(json, "listen queue"),
				    .kind = "php-fpm"};
	json_decref(json);
	return ret_status->busy >= 0 && ret_status->requests >= 0;
}

bool weir_status_read(const char *text, size_t length, weir_status *ret_status)
{
	static const size_t most = 4096; /* the numbers come first */
	char copy[4097];
	weir_status status;
	if (length == 0 || length > WEIR_STATUS_BYTES || memchr(text, '\0', length) != NULL)
		return false;
	snprintf(copy, sizeof(copy), "%.*s", (int)(length < most ? length : most), text);
	bool known = copy[0] == '{' ? read_fpm_json(text, length, &status)
				    : read_nginx(copy, &status) || read_fpm(copy, &status) ||
					      read_apache(copy, &status);
	if (known)
		*ret_status = status;
	return known;
}
