/* A switch between network namespaces, in user space: every port has a bandwidth each way and a latency.

   wire_delay MBIT_PER_S LATENCY_MS NAMESPACE... opens a TUN device "port" in every namespace (10.98.0.1, 10.98.0.2, ...)
   and carries packets between them: a packet waits for its sender's connection, travels for the latency, and waits for
   the receiver's. For kernels without netem. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PORTS 64
#define QUEUE 16384
#define MTU 1500

struct packet { double due; int length; unsigned char bytes[MTU]; };
struct port { int file; double sent, received; struct packet *queue; unsigned head, tail; };

static struct port ports[PORTS];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int open_port(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    int space = open(path, O_RDONLY);
    if (space < 0 || setns(space, CLONE_NEWNET)) { perror(path); exit(1); }
    close(space);
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "port");
    if (file < 0 || ioctl(file, TUNSETIFF, &request)) { perror("port"); exit(1); }
    return file;
}

int main(int count, char **words) {
    if (count < 4 || count - 3 > PORTS) return 2;
    double per_byte = 8 / (1e6 * atof(words[1])), latency = 1e-3 * atof(words[2]);
    int n = count - 3;
    struct pollfd waiting[PORTS];
    for (int i = 0; i < n; i++) {
        ports[i].file = open_port(words[3 + i]);
        ports[i].queue = malloc(QUEUE * sizeof(struct packet));
        waiting[i] = (struct pollfd){ports[i].file, POLLIN, 0};
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        double next = 1;
        for (int i = 0; i < n; i++) {
            struct port *p = &ports[i];
            while (p->head != p->tail && p->queue[p->head % QUEUE].due <= now()) {
                struct packet *out = &p->queue[p->head++ % QUEUE];
                if (write(p->file, out->bytes, out->length) < 0) { /* a device that is not up yet loses it */ }
            }
            if (p->head != p->tail) {
                double left = p->queue[p->head % QUEUE].due - now();
                if (left < next) next = left > 0 ? left : 0;
            }
        }
        struct timespec patience = {0, (long)(1e9 * (next < 0.999 ? next : 0.999))};
        if (ppoll(waiting, n, &patience, NULL) <= 0) continue;
        for (int i = 0; i < n; i++) {
            unsigned char bytes[MTU];
            int length;
            while ((length = read(ports[i].file, bytes, MTU)) > 0) {
                int to = bytes[19] - 1; /* the last byte of the IPv4 destination */
                if (bytes[0] >> 4 != 4 || to < 0 || to >= n) continue;
                struct port *p = &ports[to];
                if (p->tail - p->head == QUEUE) continue;
                double t = now();
                ports[i].sent = (ports[i].sent > t ? ports[i].sent : t) + length * per_byte;
                double first = ports[i].sent + latency - length * per_byte;
                p->received = (p->received > first ? p->received : first) + length * per_byte;
                struct packet *in = &p->queue[p->tail++ % QUEUE];
                in->due = p->received;
                in->length = length;
                memcpy(in->bytes, bytes, length);
            }
        }
    }
}
