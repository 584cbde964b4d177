/* Small programs that hang, tick, spin or load, to be traced by record.py: `scenes NAME`. README.md says what each does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int channel[2];

static void rest(int ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000L}; nanosleep(&t, NULL); }
static void named(const char *name) { prctl(PR_SET_NAME, name); }
static pthread_t begin(void *(*work)(void *), void *with) {
    pthread_t made;
    pthread_create(&made, NULL, work, with);
    return made;
}

/* deadlock: both locks change hands under contention first, then each thread holds one and asks for the other */
static void *locker(void *with) {
    int mine = with != NULL;
    named(mine ? "lock-ab" : "lock-ba");
    pthread_mutex_t *own = mine ? &first : &second, *other = mine ? &second : &first;
    pthread_mutex_lock(own);
    rest(100);
    pthread_mutex_lock(other);
    return NULL;
}
static void deadlock(void) {
    pthread_mutex_lock(&first);
    pthread_mutex_lock(&second);
    pthread_t a = begin(locker, &first), b = begin(locker, NULL);
    rest(100);
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

/* quiet-deadlock: the same without contention before, so that no call tells who holds what */
static void *quiet(void *with) {
    named(with ? "lock-ab" : "lock-ba");
    pthread_mutex_lock(with ? &first : &second);
    rest(50);
    pthread_mutex_lock(with ? &second : &first);
    return NULL;
}
static void quiet_deadlock(void) {
    pthread_t a = begin(quiet, &first);
    begin(quiet, NULL);
    pthread_join(a, NULL);
}

/* ticker: one byte each 200 ms, read by a poll loop; the main thread waits for a lock that nobody gives */
static void *tick(void *with) {
    named("ticker");
    for (;;) {
        write(channel[1], "\0", 1);
        rest(200);
    }
}
static void *loop(void *with) {
    char byte[16];
    named("event-loop");
    for (;;) {
        struct pollfd ready = {channel[0], POLLIN, 0};
        if (poll(&ready, 1, 1000) > 0) read(channel[0], byte, sizeof byte);
    }
}
static void ticker(void) {
    pipe(channel);
    pthread_mutex_lock(&first);
    begin(tick, NULL);
    begin(loop, NULL);
    pthread_mutex_lock(&first);
}

/* producer-died: it is killed after three items; the consumer never sees the end, for it holds the write end itself */
static void producer_died(void) {
    char item[8];
    pipe(channel);
    pid_t consumer = fork();
    if (!consumer) {
        named("consumer");
        for (;;) if (read(channel[0], item, sizeof item) <= 0) _exit(0);
    }
    pid_t producer = fork();
    if (!producer) {
        named("producer");
        close(channel[0]);
        for (int n = 0; n < 3; n++) { write(channel[1], "item", 4); rest(50); }
        raise(SIGKILL);
    }
    close(channel[0]);
    waitpid(producer, NULL, 0);
    waitpid(consumer, NULL, 0);
}

/* spin: a thread reads a pipe that is empty and does not block, over and over; another waits */
static void *spinner(void *with) {
    char byte;
    named("spinner");
    fcntl(channel[0], F_SETFL, O_NONBLOCK);
    for (int n = 0; n < 300; n++) read(channel[0], &byte, 1);
    rest(30000);
    return NULL;
}
static void spin(void) {
    pipe(channel);
    pthread_join(begin(spinner, NULL), NULL);
}

/* join: main joins a thread that waits for bytes of a socket whose other end main holds */
static int pair[2];
static void *receiver(void *with) {
    char byte;
    named("receiver");
    recv(pair[0], &byte, 1, 0);
    return NULL;
}
static void join(void) {
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pthread_join(begin(receiver, NULL), NULL);
}

/* socket-pair: parent and child each wait for the other's answer, the child for ten minutes at most */
static void socket_pair(void) {
    char text[64];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!fork()) {
        struct timeval limit = {600, 0};
        named("worker");
        close(pair[0]);
        setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        send(pair[1], "ready", 5, 0);
        recv(pair[1], text, sizeof text, 0);
        _exit(0);
    }
    named("engine");
    close(pair[1]);
    recv(pair[0], text, 5, 0);
    recv(pair[0], text, sizeof text, 0);
}

/* loader: a library is searched in 40 places, two shards are read, one is mapped; then a lock file is held by another */
static void *searcher(void *with) {
    named("searcher");
    char path[64];
    for (int n = 0; n < 40; n++) {
        snprintf(path, sizeof path, "lib%d/libkernels.so", n);
        open(path, O_RDONLY);
    }
    return NULL;
}
static void loader(void) {
    static char block[65536];
    char path[64];
    for (int n = 1; n < 3; n++) {
        snprintf(path, sizeof path, "shard-%d.bin", n);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ftruncate(fd, n * 1048576);
        for (int at = 0; at < n * 1048576; at += sizeof block) pread(fd, block, sizeof block, at);
        if (n == 2) mmap(NULL, 2097152, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
    }
    pthread_join(begin(searcher, NULL), NULL);
    int lock = open("build.lock", O_RDWR | O_CREAT, 0600);
    flock(lock, LOCK_EX);
    if (!fork()) {
        named("compiler");
        int again = open("build.lock", O_RDWR);
        flock(again, LOCK_EX);
        _exit(0);
    }
    waitpid(-1, NULL, 0);
}

/* unread: a byte is written to a wake-up pipe and never read: epoll says so for ever; an eventfd is polled that nobody writes */
static void *waker(void *with) {
    struct epoll_event ready = {EPOLLIN, {.fd = channel[0]}}, got;
    named("reactor");
    int set = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(set, EPOLL_CTL_ADD, channel[0], &ready);
    for (int n = 0; n < 60; n++) epoll_wait(set, &got, 1, -1);
    rest(30000);
    return NULL;
}
static void unread(void) {
    uint64_t three = 3;
    pipe2(channel, O_CLOEXEC);
    int event = eventfd(0, EFD_NONBLOCK);
    begin(waker, NULL);
    rest(20);
    write(channel[1], "w", 1);
    int other = eventfd(0, EFD_CLOEXEC);
    write(other, &three, sizeof three);
    named("poller");
    for (;;) {
        struct pollfd wanted = {event, POLLIN, 0};
        poll(&wanted, 1, 100);
    }
}

/* launch good, launch bad: two workers load a shard each and answer; in the bad one worker-1 finds a lock file and asks for ever */
static int bad;
static void *worker(void *with) {
    char path[32], block[4096];
    long rank = (long)with;
    snprintf(path, sizeof path, "worker-%ld", rank);
    named(path);
    snprintf(path, sizeof path, "shard-%ld.bin", rank);
    int fd = open(path, O_RDONLY);
    for (int n = 0; n < 8; n++) { pread(fd, block, sizeof block, n * sizeof block); rest(5); }
    close(fd);
    struct stat found;
    while (rank == 1 && stat("compile.lock", &found) == 0) rest(50);
    fd = open("cache.bin", O_RDWR | O_CREAT, 0600);
    write(fd, block, 64);
    close(fd);
    write(channel[1], "done", 4);
    return NULL;
}
static void launch(void) {
    char text[8];
    pipe(channel);
    if (bad) close(open("compile.lock", O_CREAT | O_RDWR, 0600)); else unlink("compile.lock");
    for (long rank = 0; rank < 2; rank++) begin(worker, (void *)rank);
    for (int n = 0; n < 2; n++) read(channel[0], text, sizeof text);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    listen(server, 8);
    rest(200);
}

int main(int count, char **words) {
    const char *name = words[1];
    bad = count > 2 && !strcmp(words[2], "bad");
    struct { const char *name; void (*play)(void); } all[] = {
        {"deadlock", deadlock}, {"quiet-deadlock", quiet_deadlock}, {"ticker", ticker}, {"producer-died", producer_died},
        {"spin", spin}, {"join", join}, {"socket-pair", socket_pair}, {"loader", loader}, {"unread", unread}, {"launch", launch},
    };
    for (unsigned n = 0; n < sizeof all / sizeof *all; n++)
        if (!strcmp(all[n].name, name)) all[n].play();
    return 0;
}
