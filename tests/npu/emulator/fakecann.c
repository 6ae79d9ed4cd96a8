/* An emulated Ascend runtime for tests: device memory is host memory, and work is finished when it is submitted.
 *
 * Built once as libfakecann.so; every CANN library that torch_npu links is a symlink to it (build.py). Only the
 * AscendCL calls that torch_npu needs for devices, memory, streams, events and versions are here. All other symbols
 * answer FEATURE_NOT_SUPPORTED, so nothing passes unnoticed.
 *
 * Environment: FAKECANN_DEVICES (default 1), FAKECANN_SOC (Ascend910B2), FAKECANN_HBM_MB (4096, of each device).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* AscendCL's own error codes */
enum {
  OK = 0,
  PARAM_INVALID = 107000,
  INVALID_DEVICE = 107001,
  CONTEXT_NULL = 107002,
  STREAM_CONTEXT = 107003,          /* the stream belongs to another context */
  EVENT_TIMESTAMP_INVALID = 107006, /* the event was never recorded */
  MEMORY_ALLOCATION = 207001,       /* torch_npu turns this one into OutOfMemoryError */
  FEATURE_NOT_SUPPORTED = 207000,   /* what all calls answer that are not here, see build.py */
};
typedef int aclError;

enum { MAX_DEVICES = 16, NO_DEVICE = -1, POISON = 0xFF }; /* 0xFF…: NaN in every float format, -1 in every integer */

static long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}
static int device_count(void) {
  long n = setting("FAKECANN_DEVICES", 1);
  return n > MAX_DEVICES ? MAX_DEVICES : (int)n;
}
static size_t hbm_bytes(void) { return (size_t)setting("FAKECANN_HBM_MB", 4096) << 20; }

/* ---- errors: the last one of the thread, in words ---- */

static __thread char message[256] = "fakecann: no message";
static aclError error(aclError code, const char *call, const char *what) {
  snprintf(message, sizeof message, "fakecann: %s: %s", call, what);
  return code;
}
const char *aclGetRecentErrMsg(void) { return message; }

/* ---- start and end, name and versions ---- */

aclError aclInit(const char *config) { (void)config; return OK; }
aclError aclFinalize(void) { return OK; }
const char *aclrtGetSocName(void) {
  const char *soc = getenv("FAKECANN_SOC");
  return soc ? soc : "Ascend910B2";
}

/* Of the form that torch_npu can parse and compare; the alpha number says what it is. */
static const char *const CANN_VERSION = "8.5.0.alpha999", *const DRIVER_VERSION = "25.5.0.alpha999";

struct package_version { char version[128], parts[4][64], reserved[128]; };
aclError aclsysGetCANNVersion(int package, struct package_version *out) {
  const int driver = 7;
  memset(out, 0, sizeof *out);
  strcpy(out->version, package == driver ? DRIVER_VERSION : CANN_VERSION);
  return OK;
}
aclError aclsysGetVersionStr(char *package, char *version) {
  strcpy(version, strcasecmp(package, "driver") == 0 ? DRIVER_VERSION : CANN_VERSION);
  return OK;
}

/* ---- devices: the current one belongs to the thread, and a new thread has none ---- */

static __thread int32_t current = NO_DEVICE;

aclError aclrtGetDeviceCount(uint32_t *n) { *n = (uint32_t)device_count(); return OK; }
aclError aclrtSetDevice(int32_t device) {
  if (device < 0 || device >= device_count()) return error(INVALID_DEVICE, "aclrtSetDevice", "no such device");
  current = device;
  return OK;
}
aclError aclrtGetDevice(int32_t *device) {
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtGetDevice", "the thread has set no device");
  *device = current;
  return OK;
}
aclError aclrtResetDevice(int32_t device) { (void)device; return OK; }
/* A context is its device's number plus one, so that NULL stays "none". */
aclError aclrtGetCurrentContext(void **context) {
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtGetCurrentContext", "the thread has set no device");
  *context = (void *)(intptr_t)(current + 1);
  return OK;
}
aclError aclrtSetCurrentContext(void *context) { current = (int32_t)(intptr_t)context - 1; return OK; }
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active) {
  (void)device;
  if (flags) *flags = 0;
  if (active) *active = 1;
  return OK;
}
aclError aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
  (void)device, (void)peer;
  *can = 0;
  return OK;
}
aclError aclrtSynchronizeDevice(void) { return OK; }
aclError aclrtSynchronizeDeviceWithTimeout(int32_t ms) { (void)ms; return OK; }
aclError aclrtSetDeviceSatMode(int mode) { (void)mode; return OK; }
aclError HcclSetConfig(int what, int64_t value) { (void)what, (void)value; return OK; } /* asked at start-up */
aclError aclrtSetOpExecuteTimeOut(uint32_t s) { (void)s; return OK; }
aclError aclrtSetOpWaitTimeout(uint32_t s) { (void)s; return OK; }
aclError aclGetDeviceCapability(uint32_t device, int what, int64_t *value) {
  (void)device;
  const int64_t cube_cores = 24, vector_cores = 48, l2_bytes = 192 << 20;
  *value = what == 0 ? cube_cores : what == 1 ? vector_cores : l2_bytes;
  return OK;
}
aclError aclGetCannAttribute(int attribute, int32_t *value) { (void)attribute; *value = 1; return OK; }
aclError aclGetCannAttributeList(const int **list, size_t *n) {
  static const int attributes[1] = {0};
  *list = attributes;
  *n = 1;
  return OK;
}

/* ---- memory: counted for each device, filled with poison before anyone may read it ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t used[MAX_DEVICES];

static int take(int device, size_t bytes) {
  pthread_mutex_lock(&lock);
  int fits = used[device] + bytes <= hbm_bytes();
  if (fits) used[device] += bytes;
  pthread_mutex_unlock(&lock);
  return fits;
}
static void give_back(int device, size_t bytes) {
  pthread_mutex_lock(&lock);
  used[device] -= bytes;
  pthread_mutex_unlock(&lock);
}

/* In front of each block lies whose it is; 512 bytes, because CANN aligns to that. */
struct header { size_t bytes; int device; };
enum { HEADER = 512 };

static aclError allocate(void **out, size_t bytes, int device) {
  if (device != NO_DEVICE && !take(device, bytes)) return error(MEMORY_ALLOCATION, "aclrtMalloc", "out of memory");
  char *raw;
  if (posix_memalign((void **)&raw, HEADER, bytes + HEADER)) {
    if (device != NO_DEVICE) give_back(device, bytes);
    return error(MEMORY_ALLOCATION, "aclrtMalloc", "the host itself is out of memory");
  }
  *(struct header *)raw = (struct header){bytes, device};
  if (device != NO_DEVICE) memset(raw + HEADER, POISON, bytes);
  *out = raw + HEADER;
  return OK;
}
static aclError release(void *block) {
  char *raw = (char *)block - HEADER;
  struct header header = *(struct header *)raw;
  if (header.device != NO_DEVICE) give_back(header.device, header.bytes);
  free(raw);
  return OK;
}
aclError aclrtMalloc(void **out, size_t bytes, int policy) {
  (void)policy;
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtMalloc", "the thread has set no device");
  return allocate(out, bytes, current);
}
aclError aclrtMallocAlign32(void **out, size_t bytes, int policy) { return aclrtMalloc(out, bytes, policy); }
aclError aclrtFree(void *block) { return release(block); }
aclError aclrtMallocHost(void **out, size_t bytes) { return allocate(out, bytes, NO_DEVICE); }
aclError aclrtFreeHost(void *block) { return release(block); }
aclError aclrtGetMemInfo(int kind, size_t *free_bytes, size_t *total) {
  (void)kind;
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtGetMemInfo", "the thread has set no device");
  *total = hbm_bytes();
  *free_bytes = *total - used[current];
  return OK;
}

/* Copies by torch_npu's own code, by kind (1: to the device, 2: to the host, 3: on it); counters.py reads them. */
static size_t copies[16];
size_t fakecann_copies(int kind) { return copies[kind]; }

aclError aclrtMemcpy(void *to, size_t room, const void *from, size_t bytes, int kind) {
  if (bytes > room || kind < 0 || kind >= 16) return error(PARAM_INVALID, "aclrtMemcpy", "more bytes than room");
  __atomic_fetch_add(&copies[kind], 1, __ATOMIC_RELAXED);
  memmove(to, from, bytes);
  return OK;
}
aclError aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, int kind, void *stream) {
  (void)stream;
  return aclrtMemcpy(to, room, from, bytes, kind);
}
aclError aclrtMemset(void *to, size_t room, int32_t value, size_t bytes) {
  if (bytes > room) return error(PARAM_INVALID, "aclrtMemset", "more bytes than room");
  memset(to, value, bytes);
  return OK;
}
aclError aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t bytes, void *stream) {
  (void)stream;
  return aclrtMemset(to, room, value, bytes);
}

/* ---- streams and events: each belongs to the device that was current when it was made ---- */

struct stream { int device; int32_t id; };
struct event { int device; double ms; /* 0: never recorded */ };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}
/* NULL is the current device's default stream. */
static int foreign(const struct stream *stream) { return stream && stream->device != current; }

aclError aclrtCreateStream(void **out) {
  static int32_t ids;
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtCreateStream", "the thread has set no device");
  struct stream *stream = malloc(sizeof *stream);
  *stream = (struct stream){current, __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED)};
  *out = stream;
  return OK;
}
aclError aclrtCreateStreamWithConfig(void **out, uint32_t priority, uint32_t flags) {
  (void)priority, (void)flags;
  return aclrtCreateStream(out);
}
aclError aclrtDestroyStream(void *stream) { free(stream); return OK; }
aclError aclrtDestroyStreamForce(void *stream) { free(stream); return OK; }
aclError aclrtSetStreamFailureMode(void *stream, uint64_t mode) { (void)stream, (void)mode; return OK; }
aclError aclrtStreamGetId(void *stream, int32_t *id) { *id = ((struct stream *)stream)->id; return OK; }
aclError aclrtStreamQuery(void *stream, int *complete) { (void)stream; *complete = 0; return OK; }
aclError aclrtSynchronizeStream(void *stream) {
  if (foreign(stream)) return error(STREAM_CONTEXT, "aclrtSynchronizeStream", "the stream is another device's");
  return OK;
}
aclError aclrtSynchronizeStreamWithTimeout(void *stream, int32_t ms) { (void)ms; return aclrtSynchronizeStream(stream); }

aclError aclrtCreateEventWithFlag(void **out, uint32_t flags) {
  (void)flags;
  if (current == NO_DEVICE) return error(CONTEXT_NULL, "aclrtCreateEvent", "the thread has set no device");
  struct event *event = malloc(sizeof *event);
  *event = (struct event){current, 0};
  *out = event;
  return OK;
}
aclError aclrtCreateEventExWithFlag(void **out, uint32_t flags) { return aclrtCreateEventWithFlag(out, flags); }
aclError aclrtDestroyEvent(void *event) { free(event); return OK; }
aclError aclrtRecordEvent(void *which, void *stream) {
  struct event *event = which;
  if (foreign(stream)) return error(STREAM_CONTEXT, "aclrtRecordEvent", "the stream is another device's");
  if (event->device != current) return error(STREAM_CONTEXT, "aclrtRecordEvent", "the event is another device's");
  event->ms = now_ms();
  return OK;
}
aclError aclrtResetEvent(void *event, void *stream) { (void)event, (void)stream; return OK; }
aclError aclrtSynchronizeEvent(void *event) { (void)event; return OK; }
aclError aclrtStreamWaitEvent(void *stream, void *event) {
  (void)event; /* may be another device's: that is how devices wait for each other */
  if (foreign(stream)) return error(STREAM_CONTEXT, "aclrtStreamWaitEvent", "the stream is another device's");
  return OK;
}
aclError aclrtQueryEventStatus(void *event, int *complete) { (void)event; *complete = 1; return OK; }
aclError aclrtQueryEventWaitStatus(void *event, int *complete) { (void)event; *complete = 0; return OK; }
aclError aclrtEventElapsedTime(float *ms, void *start, void *end) {
  struct event *a = start, *b = end;
  if (!a->ms || !b->ms) return error(EVENT_TIMESTAMP_INVALID, "aclrtEventElapsedTime", "an event was never recorded");
  *ms = (float)(b->ms - a->ms);
  return OK;
}

/* ---- options: kept and given back ---- */

static char compile_options[16][64]; /* aclSetCompileopt's; option 5 is the JIT compilation of operators */
static int64_t system_options[16];
static int known(int option) { return option >= 0 && option < 16; }

size_t aclGetCompileoptSize(int option) { (void)option; return sizeof compile_options[0]; }
aclError aclGetCompileopt(int option, char *value, size_t room) {
  if (!known(option)) return error(PARAM_INVALID, "aclGetCompileopt", "no such option");
  snprintf(value, room, "%s", compile_options[option][0] ? compile_options[option] : "disable");
  return OK;
}
aclError aclSetCompileopt(int option, const char *value) {
  if (!known(option)) return error(PARAM_INVALID, "aclSetCompileopt", "no such option");
  snprintf(compile_options[option], sizeof compile_options[0], "%s", value);
  return OK;
}
aclError aclrtGetSysParamOpt(int option, int64_t *value) {
  if (!known(option)) return error(PARAM_INVALID, "aclrtGetSysParamOpt", "no such option");
  *value = system_options[option];
  return OK;
}
aclError aclrtSetSysParamOpt(int option, int64_t value) {
  if (!known(option)) return error(PARAM_INVALID, "aclrtSetSysParamOpt", "no such option");
  system_options[option] = value;
  return OK;
}
aclError aclrtCtxGetSysParamOpt(int option, int64_t *value) { return aclrtGetSysParamOpt(option, value); }
aclError aclrtCtxSetSysParamOpt(int option, int64_t value) { return aclrtSetSysParamOpt(option, value); }
