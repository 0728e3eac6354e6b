/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define FIRST_LINE "weir uplink 1\n"
#define GSO_MOST   UINT32_C(0x7fffffff)

/* ---- the text ---- */

size_t weir_uplink_state_print(const weir_uplink_state *state, char *ret_text, size_t size)
{
	int length = snprintf(ret_text, size,
			      FIRST_LINE "device %s\nindex %d\nrate %" PRIu64 "\nbands %u\ngso-size %" PRIu32
					 "\ngso-count %" PRIu32 "\ngso-ipv4-size %" PRIu32 "\n",
			      state->device, state->index, state->rate, state->bands, state->gso.size,
			      state->gso.count, state->gso.ipv4_size);
	return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

typedef struct scanner {
	const char *at, *end;
	const char *wrong; /* the line that was not as expected; NULL: all were */
} scanner;

/* The rest of a line that begins with this name; its length. */
static const char *line_of(scanner *s, const char *name, size_t *ret_length)
{
	size_t length = strlen(name), left = (size_t)(s->end - s->at);
	const char *end = memchr(s->at, '\n', left);
	if (s->wrong == NULL && (end == NULL || (size_t)(end - s->at) <= length ||
				 memcmp(s->at, name, length) != 0 || s->at[length] != ' '))
		s->wrong = name;
	if (s->wrong != NULL)
		return NULL;
	const char *value = s->at + length + 1;
	*ret_length = (size_t)(end - value);
	s->at = end + 1;
	return value;
}

/* A number without a sign, spaces or leading zeros. */
static uint64_t number_of(scanner *s, const char *name, uint64_t least, uint64_t most)
{
	size_t length = 0;
	const char *text = line_of(s, name, &length);
	uint64_t value = 0;
	bool good = text != NULL && length > 0 && length < 20 && (text[0] != '0' || length == 1);
	for (size_t i = 0; good && i < length; i++) {
		good = text[i] >= '0' && text[i] <= '9';
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	if (s->wrong == NULL && (!good || value < least || value > most))
		s->wrong = name;
	return s->wrong == NULL ? value : 0;
}

static void device_of(scanner *s, char ret_name[IF_NAMESIZE])
{
	size_t length = 0;
	const char *text = line_of(s, "device", &length);
	bool good = text != NULL && length > 0 && length < IF_NAMESIZE;
	for (size_t i = 0; good && i < length; i++)
		good = text[i] > ' ' && text[i] <= '~' && text[i] != '/';
	if (good)
		memcpy(ret_name, text, length);
	else if (s->wrong == NULL)
		s->wrong = "device";
}

int weir_uplink_state_read(const char *text, size_t size, weir_uplink_state *ret_state)
{
	weir_uplink_state state = {0};
	scanner s = {.at = text, .end = text + size};
	size_t first = strlen(FIRST_LINE);
	if (size > WEIR_UPLINK_STATE_BYTES || size < first || memcmp(text, FIRST_LINE, first) != 0)
		return weir_error_set(-EINVAL, "it is not a file of this version of weir uplink");
	s.at += first;
	device_of(&s, state.device);
	state.index = (int)number_of(&s, "index", 1, INT_MAX);
	state.rate = number_of(&s, "rate", WEIR_UPLINK_RATE_LEAST, WEIR_UPLINK_RATE_MOST);
	state.bands = (unsigned)number_of(&s, "bands", 1, WEIR_BANDS_MOST);
	state.gso.size = (uint32_t)number_of(&s, "gso-size", 0, GSO_MOST);
	state.gso.count = (uint32_t)number_of(&s, "gso-count", 0, GSO_MOST);
	state.gso.ipv4_size = (uint32_t)number_of(&s, "gso-ipv4-size", 0, GSO_MOST);
	if (s.wrong != NULL)
		return weir_error_set(-EINVAL, "its line '%s' is missing or wrong", s.wrong);
	if (s.at != s.end)
		return weir_error_set(-EINVAL, "it has more lines than expected");
	*ret_state = state;
	return 0;
}

/* ---- the file ---- */

/* "uplink-4026531840-2": devices of different namespaces may have the same number. */
static int name_of(int index, char *ret_name, size_t size)
{
	struct stat about;
	if (stat("/proc/self/ns/net", &about) != 0)
		about.st_ino = 0;
	int length = snprintf(ret_name, size, "uplink-%llu-%d", (unsigned long long)about.st_ino, index);
	return length > 0 && (size_t)length < size ? 0 : -ENAMETOOLONG;
}

static bool is_private(const struct stat *about)
{
	return (about->st_uid == 0 || about->st_uid == geteuid()) &&
	       (about->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Returns a descriptor, or a negative errno with weir_error, but -ENOENT without. */
static int open_folder(const char *folder)
{
	struct stat about;
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : weir_error_set(-errno, "%s: %s", folder, strerror(errno));
	if (fstat(fd, &about) == 0 && is_private(&about))
		return fd;
	close(fd);
	return weir_error_set(-EPERM, "%s: others may write to it; make it root's alone (chmod go-w)",
			      folder);
}

static int make_folder(const char *folder)
{
	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		return weir_error_set(-errno, "%s: %s", folder, strerror(errno));
	int fd = open_folder(folder);
	return fd == -ENOENT ? weir_error_set(fd, "%s: %s", folder, strerror(ENOENT)) : fd;
}

int weir_uplink_state_lock(const char *folder)
{
	int fd = make_folder(folder);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
		return fd;
	close(fd);
	return weir_error_set(-EBUSY, "%s: another weir uplink is at work; try again when it has ended",
			      folder);
}

static int load_from(int folder_fd, const char *folder, const char *name, weir_uplink_state *ret_state)
{
	char text[WEIR_UPLINK_STATE_BYTES + 1];
	struct stat about;
	int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT
				       : weir_error_set(-errno, "%s/%s: %s", folder, name, strerror(errno));
	ssize_t got = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && is_private(&about)
			      ? read(fd, text, sizeof(text))
			      : -1;
	close(fd);
	if (got < 0)
		return weir_error_set(-EPERM, "%s/%s: it is not a file of root's alone; remove it", folder,
				      name);
	char reason[128];
	if (weir_uplink_state_read(text, (size_t)got, ret_state) == 0)
		return 0;
	snprintf(reason, sizeof(reason), "%s", weir_error());
	return weir_error_set(-EINVAL, "%s/%s: %s; remove it", folder, name, reason);
}

int weir_uplink_state_load(const char *folder, int index, weir_uplink_state *ret_state)
{
	char name[64];
	weir_uplink_state state = {0};
	int fd = open_folder(folder), error = fd < 0 ? fd : name_of(index, name, sizeof(name));
	if (error == 0)
		error = load_from(fd, folder, name, &state);
	if (fd >= 0)
		close(fd);
	if (error == 0 && state.index != index)
		return weir_error_set(-EINVAL, "%s/%s: it is about another device; remove it", folder, name);
	if (error == 0)
		*ret_state = state;
	return error;
}

static int write_file(int folder_fd, const char *name, const char *text, size_t length)
{
	char temporary[80];
	snprintf(temporary, sizeof(temporary), "%s.%ld.new", name, (long)getpid());
	unlinkat(folder_fd, temporary, 0);
	int fd = openat(folder_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	ssize_t wrote = write(fd, text, length);
	int error = wrote == (ssize_t)length ? 0 : wrote < 0 ? -errno : -ENOSPC;
	if (error == 0 && fchmod(fd, 0644) != 0)
		error = -errno;
	close(fd);
	if (error == 0 && renameat(folder_fd, temporary, folder_fd, name) != 0)
		error = -errno;
	if (error != 0)
		unlinkat(folder_fd, temporary, 0);
	return error;
}

int weir_uplink_state_save(const char *folder, const weir_uplink_state *state)
{
	char name[64], text[WEIR_UPLINK_STATE_BYTES];
	size_t length = weir_uplink_state_print(state, text, sizeof(text));
	int fd = make_folder(folder);
	if (fd < 0)
		return fd;
	int error = name_of(state->index, name, sizeof(name));
	if (error == 0)
		error = write_file(fd, name, text, length);
	close(fd);
	return error == 0 ? 0
			  : weir_error_set(error, "%s: what was there before cannot be kept: %s", folder,
					   strerror(-error));
}

int weir_uplink_state_drop(const char *folder, int index)
{
	char name[64];
	int fd = open_folder(folder), error = 0;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	error = name_of(index, name, sizeof(name));
	if (error == 0 && unlinkat(fd, name, 0) != 0 && errno != ENOENT)
		error = weir_error_set(-errno, "%s/%s: %s", folder, name, strerror(errno));
	close(fd);
	return error;
}
