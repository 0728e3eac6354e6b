/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Packets that the device keeps for us until we read them; the bottleneck's queue is elsewhere. */
#define DEVICE_QUEUE 2000

static int say(const char *what, char *why, size_t size)
{
	int error = errno;
	snprintf(why, size, "%s: %s", what, strerror(error));
	return -error;
}

/* ---- a device ---- */

static struct ifreq request(const char *device)
{
	struct ifreq asked;
	memset(&asked, 0, sizeof asked);
	snprintf(asked.ifr_name, sizeof asked.ifr_name, "%s", device);
	return asked;
}

static struct sockaddr_in address_of(uint32_t host)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(host)}};
}

static int set_address(int with, const char *device, uint32_t host)
{
	struct ifreq asked = request(device);
	struct sockaddr_in address = address_of(host);
	memcpy(&asked.ifr_addr, &address, sizeof address);
	if (ioctl(with, SIOCSIFADDR, &asked) != 0)
		return -1;
	address = address_of(0xffff0000u);
	memcpy(&asked.ifr_netmask, &address, sizeof address);
	return ioctl(with, SIOCSIFNETMASK, &asked);
}

static int set_up(int with, const char *device)
{
	struct ifreq asked = request(device);
	if (ioctl(with, SIOCGIFFLAGS, &asked) != 0)
		return -1;
	asked.ifr_flags |= IFF_UP;
	return ioctl(with, SIOCSIFFLAGS, &asked);
}

static int set_sizes(int with, unsigned mtu)
{
	struct ifreq asked = request(WAN_DEVICE);
	asked.ifr_mtu = (int)mtu;
	if (ioctl(with, SIOCSIFMTU, &asked) != 0)
		return -1;
	asked = request(WAN_DEVICE);
	asked.ifr_qlen = DEVICE_QUEUE;
	return ioctl(with, SIOCSIFTXQLEN, &asked);
}

static int configure(int with, unsigned clients, unsigned mtu)
{
	char name[IFNAMSIZ];
	int failed = set_sizes(with, mtu);
	if (failed == 0 && clients == 0)
		failed = set_address(with, WAN_DEVICE, 0x0a4d0001u);
	for (unsigned i = 1; i <= clients && failed == 0; i++) {
		snprintf(name, sizeof name, i == 1 ? WAN_DEVICE : WAN_DEVICE ":%u", i);
		failed = set_address(with, name, 0x0a4d0001u + (i << 8));
	}
	if (failed == 0)
		failed = set_up(with, WAN_DEVICE);
	return failed != 0 ? failed : set_up(with, "lo");
}

static int open_device(wan_side *side, unsigned clients, unsigned mtu, char *why, size_t size)
{
	struct ifreq asked = request(WAN_DEVICE);
	asked.ifr_flags = IFF_TUN | IFF_NO_PI;
	side->tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (side->tun < 0)
		return say("/dev/net/tun", why, size);
	if (ioctl(side->tun, TUNSETIFF, &asked) != 0)
		return say("a TUN device", why, size);
	int with = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int failed = with >= 0 ? configure(with, clients, mtu) : -1;
	if (failed != 0)
		failed = say("configuring a TUN device", why, size);
	if (with >= 0)
		close(with);
	return failed;
}

/* ---- a namespace ---- */

static int open_space(void)
{
	return open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

int wan_side_open(wan_side *side, unsigned clients, unsigned mtu, char *why, size_t size)
{
	*side = (wan_side){-1, -1};
	if (clients > WAN_CLIENTS_MAX || mtu < 576 || mtu > 1500) {
		snprintf(why, size, "at most %d clients, and an MTU of 576 to 1500", WAN_CLIENTS_MAX);
		return -EINVAL;
	}
	int own = open_space(), failed;
	if (own < 0)
		return say("/proc/self/ns/net", why, size);
	if (unshare(CLONE_NEWNET) != 0) {
		failed = say("a network namespace", why, size);
		close(own);
		return failed;
	}
	side->space = open_space();
	failed = side->space >= 0 ? open_device(side, clients, mtu, why, size)
				  : say("/proc/self/ns/net", why, size);
	if (setns(own, CLONE_NEWNET) != 0 && failed == 0)
		failed = say("back to the own namespace", why, size);
	close(own);
	if (failed != 0)
		wan_side_close(side);
	return failed;
}

void wan_side_close(wan_side *side)
{
	if (side->tun >= 0)
		close(side->tun);
	if (side->space >= 0)
		close(side->space);
	*side = (wan_side){-1, -1};
}
