/* Tells how each program of the work folder ends. It is loaded into all that the tests' command
   runs; `_program_ends.py` builds it and reads what it says, a line each:

       NONCE PID began PROGRAM
       NONCE PID returned|exit|_exit|quick_exit STATUS

   Most of it may run before anything else in the process is ready, so it uses system calls only. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VARIABLE "ROLECRAFT_PROGRAM_ENDS=" /* NONCE:PIPE:FOLDER */
#define MOST 3000                          /* of a path, so that a line is written at once */

static char nonce[64], channel[256];
static long watched; /* the process; what it forks is another */

static char *put(char *to, const char *text, size_t size) {
    memcpy(to, text, size);
    to[size] = ' ';
    return to + size + 1;
}

static char *put_number(char *to, unsigned long number) {
    char digits[24], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    return put(to, at, (size_t)(digits + sizeof digits - at));
}

static void say(const char *what, const char *program, int status) {
    char line[MOST + 256], *end = line;
    if (!watched || syscall(SYS_getpid) != watched)
        return;
    end = put(end, nonce, strlen(nonce));
    end = put_number(end, (unsigned long)watched);
    end = put(end, what, strlen(what));
    end = program ? put(end, program, strlen(program)) : put_number(end, (unsigned)status & 255);
    end[-1] = '\n';
    long file = syscall(SYS_openat, AT_FDCWD, channel, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    syscall(SYS_write, file, line, end - line);
    syscall(SYS_close, file);
}

/* `copied(to, size, from, end)`: what stands before `end`, and where it goes on after that. */
static const char *copied(char *to, size_t size, const char *from, char end) {
    size_t length = 0;
    while (from[length] && from[length] != end && length + 1 < size)
        length++;
    memcpy(to, from, length);
    to[length] = 0;
    return from[length] == end && end ? from + length + 1 : from + length;
}

__attribute__((constructor)) static void begin(int argc, char **argv, char **variables) {
    static char folder[MOST], program[MOST];
    const char *said = NULL;
    (void)argc, (void)argv;
    for (; variables && *variables; variables++)
        if (!strncmp(*variables, VARIABLE, strlen(VARIABLE)))
            said = *variables + strlen(VARIABLE);
    if (!said)
        return;
    said = copied(nonce, sizeof nonce, said, ':');
    said = copied(channel, sizeof channel, said, ':');
    copied(folder, sizeof folder, said, 0);
    long size = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program, sizeof program - 1);
    size_t within = strlen(folder);
    if (size <= (long)within || strncmp(program, folder, within) || program[within] != '/')
        return;
    program[size] = 0;
    watched = syscall(SYS_getpid);
    say("began", program + within + 1, 0);
}

typedef int Main(int, char **, char **);
static Main *given;

static int watched_main(int argc, char **argv, char **variables) {
    int status = given(argc, argv, variables);
    say("returned", NULL, status);
    return status;
}

int __libc_start_main(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader)(void), void *stack) {
    int (*start)(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
    given = main;
    return start(watched_main, argc, argv, init, fini, loader, stack);
}

__attribute__((noreturn)) static void pass(const char *name, int status) {
    void (*next)(int);
    say(name, NULL, status);
    *(void **)&next = dlsym(RTLD_NEXT, name);
    next(status);
    __builtin_unreachable();
}

void exit(int status) { pass("exit", status); }
void quick_exit(int status) { pass("quick_exit", status); }
void _exit(int status) { pass("_exit", status); }
void _Exit(int status) { pass("_exit", status); }

/* A program built with AddressSanitizer refuses to begin after another library, unless told so. */
const char *__asan_default_options(void) { return "verify_asan_link_order=0"; }
