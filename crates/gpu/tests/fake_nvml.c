/* A management library without a driver behind it, for tests. What it does is chosen when it is
 * compiled:
 *   OLD        has only what a very old driver has
 *   MISMATCH   kernel module and library do not fit
 *   LOST_AT n  GPU 0 falls off the bus when it is sampled for the nth time
 *   HANG file  asking GPU 0 for its use blocks until the file is there
 *   LOG file   writes down who asks for what it does not have
 * Layouts and numbers are those of the public header. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef int ret;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15, MISMATCHED = 18, IN_USE = 19 };

static char gpus[2];
#define GPU0 ((void *)&gpus[0])
static int samples;

static int index_of(void *d) { return (int)((char *)d - gpus); }

static ret alive(void *d) {
#ifdef LOST_AT
    if (index_of(d) == 0 && samples >= LOST_AT) return LOST;
#endif
    (void)d;
    return OK;
}

static void note(const char *what) {
#ifdef LOG
    FILE *f = fopen(LOG, "a");
    if (f) { fprintf(f, "%s\n", what); fclose(f); }
#endif
    (void)what;
}

#define ALIVE(d) do { ret r_ = alive(d); if (r_) return r_; } while (0)

ret nvmlInit_v2(void) {
#ifdef MISMATCH
    return MISMATCHED;
#endif
    return OK;
}
#ifndef NO_SHUTDOWN
ret nvmlShutdown(void) { return OK; }
#endif
ret nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "580.1.2"); return OK; }
ret nvmlSystemGetNVMLVersion(char *out, unsigned n) { snprintf(out, n, "13.580.1.2"); return OK; }
ret nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return OK; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
    if (i > 1) return INVALID;
    ALIVE(&gpus[i]);
    *d = &gpus[i];
    return OK;
}
ret nvmlDeviceGetName(void *d, char *out, unsigned n) { ALIVE(d); snprintf(out, n, "NVIDIA H200"); return OK; }

static int is_slice(void *d);
ret nvmlDeviceGetUUID(void *d, char *out, unsigned n) {
    ALIVE(d);
    if (is_slice(d)) snprintf(out, n, "MIG-fake-%ld", (long)((char *)d - gpus));
    else snprintf(out, n, "GPU-fake-%d", index_of(d));
    return OK;
}

struct memory { unsigned long long total, free, used; };
ret nvmlDeviceGetMemoryInfo(void *d, struct memory *m) {
    ALIVE(d);
    m->total = 143771ull << 20; m->used = 1ull << 30; m->free = m->total - m->used;
    return OK;
}
struct use { unsigned gpu, memory; };
ret nvmlDeviceGetUtilizationRates(void *d, struct use *u) {
    if (d == GPU0) samples++;
#ifdef HANG
    while (d == GPU0 && access(HANG, F_OK) != 0) usleep(1000);
#endif
    ALIVE(d);
    u->gpu = 87; u->memory = 40;
    return OK;
}
ret nvmlDeviceGetTemperature(void *d, unsigned kind, unsigned *t) { (void)kind; ALIVE(d); *t = 61; return OK; }
ret nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *m) { ALIVE(d); *m = 4; return OK; }
ret nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { ALIVE(d); *mw = 512345; return OK; }
ret nvmlDeviceGetFanSpeed(void *d, unsigned *p) { (void)d; (void)p; note("fan"); return NOT_SUPPORTED; }

#ifdef OLD
static int is_slice(void *d) { (void)d; return 0; }
#else

struct memory2 { unsigned version; unsigned long long total, reserved, free, used; };
ret nvmlDeviceGetMemoryInfo_v2(void *d, struct memory2 *m) {
    ALIVE(d);
    if (m->version != (sizeof *m | 2 << 24)) return 25;
    m->total = 143771ull << 20; m->reserved = 600ull << 20; m->used = 1ull << 30;
    m->free = m->total - m->used - m->reserved;
    return OK;
}
ret nvmlDeviceGetClockInfo(void *d, unsigned kind, unsigned *mhz) { ALIVE(d); *mhz = kind == 1 ? 1755 : 3201; return OK; }
ret nvmlDeviceGetModuleId(void *d, unsigned *id) { ALIVE(d); *id = 3; return OK; }
ret nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *g) { ALIVE(d); *g = 5; return OK; }

struct fabric { unsigned version; unsigned char id[16]; ret status; unsigned clique; unsigned char state; unsigned health; };
ret nvmlDeviceGetGpuFabricInfoV(void *d, struct fabric *f) {
    ALIVE(d);
    /* Only the second version, as drivers before 570 do. */
    if (f->version != (sizeof *f | 2 << 24)) return 25;
    memset(f->id, 0xab, 16); f->status = OK; f->clique = 7; f->state = 3; f->health = 0;
    return OK;
}

struct field { unsigned id, scope; long long when, took; unsigned type; ret code; union { double d; unsigned u; unsigned long long ull; } v; };
ret nvmlDeviceGetFieldValues(void *d, int n, struct field *f) {
    ALIVE(d);
    for (int i = 0; i < n; i++) {
        f[i].code = OK; f[i].type = 3; f[i].v.ull = 0;
        switch (f[i].id) {
        case 82: f[i].type = 1; f[i].v.u = 55; break;
        case 83: f[i].v.ull = 123456789; break;
        case 185: f[i].type = 1; f[i].v.u = 500000; break;
        case 186: f[i].type = 1; f[i].v.u = 510500; break;
        case 3: f[i].v.ull = 4; break;
        case 230: f[i].type = 1; f[i].v.u = 1; break;
        case 161: f[i].v.ull = 10 + f[i].scope; break;
        case 138: case 139: f[i].v.ull = 1000; break;
        case 202: case 204: f[i].v.ull = 1 << 20; break;
        default: f[i].code = NOT_SUPPORTED; note("field");
        }
    }
    return OK;
}
ret nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *on) {
    ALIVE(d);
    if (link > 2) return INVALID;
    *on = link != 1;
    return OK;
}

/* Counters between two looks. */
struct support { unsigned version, has; };
static int moments;
ret nvmlGpmQueryDeviceSupport(void *d, struct support *s) { ALIVE(d); s->has = 1; return OK; }
ret nvmlGpmSampleAlloc(void **s) { *s = &moments; moments++; return OK; }
ret nvmlGpmSampleFree(void *s) { (void)s; moments--; return OK; }
ret nvmlGpmSampleGet(void *d, void *s) { (void)s; ALIVE(d); return OK; }
ret nvmlGpmMigSampleGet(void *d, unsigned gi, void *s) { (void)s; (void)gi; ALIVE(d); return OK; }
struct metric { unsigned id; ret code; double value; char *names[3]; };
struct metrics { unsigned version, n; void *a, *b; struct metric m[]; };
ret nvmlGpmMetricsGet(struct metrics *g) {
    if (g->version != 1 || !g->a || !g->b) return INVALID;
    for (unsigned i = 0; i < g->n; i++) {
        g->m[i].code = g->m[i].id == 11 ? NOT_SUPPORTED : OK;
        g->m[i].value = g->m[i].id == 20 ? 2.0 : 50.0;
    }
    return OK;
}

/* Events: one XID of GPU 1, then GPU 0 may be lost, then silence. */
struct event { void *gpu; unsigned long long kind, data; unsigned gi, ci; };
static int reported, sets[2], made_sets;
ret nvmlEventSetCreate(void **s) { *s = &sets[made_sets++ % 2]; return OK; }
ret nvmlDeviceRegisterEvents(void *d, unsigned long long kinds, void *s) { (void)s; ALIVE(d); return kinds == 8 ? OK : INVALID; }
ret nvmlEventSetFree(void *s) { (void)s; return OK; }
ret nvmlEventSetWait_v2(void *s, struct event *e, unsigned ms) {
    (void)ms;
    if (reported++ == 0) { e->gpu = &gpus[1]; e->kind = 8; e->data = 31; e->gi = e->ci = ~0u; return OK; }
    if (s == &sets[0]) ALIVE(GPU0);
    return TIMEOUT;
}

struct process { unsigned pid; unsigned long long memory; unsigned gi, ci; };
ret nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p) {
    ALIVE(d);
    if (*n < 2) { *n = 2; return TOO_SMALL; }
    *n = 2;
    p[0] = (struct process){ 4242, 7ull << 30, ~0u, ~0u };
    p[1] = (struct process){ 4243, ~0ull, 1, 0 };
    return OK;
}
ret nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, struct process *p) { (void)p; ALIVE(d); *n = 0; return OK; }

/* Slices: two profiles, eight places. */
static struct instance { int there; unsigned profile, start, size; int computes; } inst[16];
static char parts[16];
static unsigned mig_on = 1;
static int is_slice(void *d) { return (char *)d >= (char *)inst && (char *)d < (char *)(inst + 16); }
static unsigned gi_of(void *gi) { return (unsigned)((struct instance *)gi - inst); }
ret nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *later) { ALIVE(d); *now = *later = mig_on; return OK; }
ret nvmlDeviceSetMigMode(void *d, unsigned mode, ret *state) { ALIVE(d); mig_on = mode; *state = OK; return OK; }
struct profile { unsigned version, id, p2p, slices, most, sms, ce, dec, enc, jpeg, ofa; unsigned long long mib; char name[96]; };
ret nvmlDeviceGetGpuInstanceProfileInfoV(void *d, unsigned n, struct profile *p) {
    ALIVE(d);
    if (p->version != (sizeof *p | 2 << 24)) return 25;
    if (n == 0) { p->id = 19; p->most = 7; p->sms = 16; p->mib = 16384; strcpy(p->name, "MIG 1g.18gb"); return OK; }
    if (n == 2) { p->id = 9; p->most = 2; p->sms = 60; p->mib = 71424; strcpy(p->name, "MIG 3g.71gb"); return OK; }
    return NOT_SUPPORTED;
}
struct place { unsigned start, size; };
ret nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *d, unsigned id, struct place *p, unsigned *n) {
    ALIVE(d);
    *n = id == 19 ? 7 : 2;
    for (unsigned i = 0; p && i < *n; i++) p[i] = (struct place){ id == 19 ? i : i * 4, id == 19 ? 1 : 4 };
    return OK;
}
ret nvmlDeviceCreateGpuInstanceWithPlacement(void *d, unsigned id, const struct place *p, void **gi) {
    ALIVE(d);
    for (int i = 0; i < 16; i++)
        if (inst[i].there && inst[i].start < p->start + p->size && p->start < inst[i].start + inst[i].size) return 23;
    for (int i = 1; i < 16; i++)
        if (!inst[i].there) { inst[i] = (struct instance){ 1, id, p->start, p->size, 0 }; *gi = &inst[i]; return OK; }
    return 23;
}
struct compute_profile { unsigned id, slices, most, sms, shared[5]; };
ret nvmlGpuInstanceGetComputeInstanceProfileInfo(void *gi, unsigned n, unsigned engine, struct compute_profile *p) {
    (void)engine;
    unsigned whole = ((struct instance *)gi)->profile == 19 ? 0 : 2;
    if (n > whole) return NOT_SUPPORTED;
    p->id = n; p->slices = n + 1;
    return OK;
}
ret nvmlGpuInstanceCreateComputeInstance(void *gi, unsigned id, void **ci) {
    unsigned whole = ((struct instance *)gi)->profile == 19 ? 0 : 2;
    if (id != whole) return INVALID;
    ((struct instance *)gi)->computes = 1; *ci = &parts[gi_of(gi)];
    return OK;
}
ret nvmlGpuInstanceGetComputeInstances(void *gi, unsigned id, void **list, unsigned *n) {
    unsigned whole = ((struct instance *)gi)->profile == 19 ? 0 : 2;
    *n = id == whole && ((struct instance *)gi)->computes;
    if (*n) list[0] = &parts[gi_of(gi)];
    return OK;
}
ret nvmlComputeInstanceDestroy(void *ci) { inst[(char *)ci - parts].computes = 0; return OK; }
ret nvmlGpuInstanceDestroy(void *gi) {
    if (((struct instance *)gi)->computes) return IN_USE;
    ((struct instance *)gi)->there = 0;
    return OK;
}
ret nvmlDeviceGetGpuInstanceById(void *d, unsigned id, void **gi) {
    (void)d;
    if (id > 15 || !inst[id].there) return 6;
    *gi = &inst[id];
    return OK;
}
struct info { void *d; unsigned id, profile; struct place place; };
ret nvmlGpuInstanceGetInfo(void *gi, struct info *i) {
    struct instance *g = gi;
    i->d = GPU0; i->id = gi_of(gi); i->profile = g->profile; i->place = (struct place){ g->start, g->size };
    return OK;
}
ret nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { ALIVE(d); *n = d == GPU0 ? 16 : 0; return OK; }
ret nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **m) {
    (void)d;
    if (i > 15 || !inst[i].there || !inst[i].computes) return 6;
    *m = &inst[i];
    return OK;
}
ret nvmlDeviceGetGpuInstanceId(void *m, unsigned *id) { *id = gi_of(m); return OK; }
ret nvmlDeviceGetComputeInstanceId(void *m, unsigned *id) { (void)m; *id = 0; return OK; }
#endif
