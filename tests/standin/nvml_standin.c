/* A stand-in for libnvidia-ml.so.1: the ABI that the binding calls, over GPUs described by a small text file.
 *
 * NVML_STANDIN_STATE names the file, NVML_STANDIN_GPUS the number of GPUs (8). The file is read again whenever it
 * changes, so a test moves the fleet while a process runs. Lines are `key value`; `3.key` is about GPU 3, `all.key`
 * about every GPU. Keys:
 *   driver, order (physical GPUs that the driver lists: `0,1,2`), return.<function> (a return code), hang <seconds>
 *   (of nvmlInit)
 *   N.lost 1, N.hang <seconds>, N.return.<function>, N.uuid, N.serial, N.pci, N.mig 1
 *   N.instances gi:ci:profile:bytes,...   N.processes pid:bytes,...   xid.<n> <gpu> <code> [gi ci], n ascending
 *   N.field.<id>[.<link>] <value>  (`!3` = return code 3, `d:` a double, `i:` a signed int)   N.poison_field <id>
 *   N.gpm.<id> <double>, N.no_gpm 1, N.links <count>, and a number for each plain reading (see PLAIN below)
 * Built with -DOLD_DRIVER it lacks the functions that a driver of 2020 lacked. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

typedef unsigned int u32;
typedef unsigned long long u64;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };
enum { GPUS_MAX = 64, INSTANCES_MAX = 8, LINES_MAX = 1024 };

typedef struct { u32 is_mig, gpu, instance; } Device;
typedef struct { char key[64]; char value[256]; } Line;
typedef struct { u32 id, scope; int64_t at_us, latency_us; int type, code; union { double d; u64 u; int64_t s; int i; } value; } FieldValue;

static Line lines[LINES_MAX];
static int line_count;
static struct stat seen;
static int is_read, open_count;
static u64 xid_delivered;
static u64 registered; /* bit per GPU */
static Device gpus[GPUS_MAX], instances[GPUS_MAX][INSTANCES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void parse(FILE *file) {
  char text[400];
  line_count = 0;
  while (line_count < LINES_MAX && fgets(text, sizeof text, file)) {
    Line *line = &lines[line_count];
    if (sscanf(text, "%63s %255[^\n]", line->key, line->value) == 2) line_count++;
  }
}

static void refresh(void) {
  const char *path = getenv("NVML_STANDIN_STATE");
  struct stat now;
  if (!path || stat(path, &now)) { line_count = 0; is_read = 0; return; }
  if (is_read && now.st_ino == seen.st_ino && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec
      && now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_size == seen.st_size) return;
  FILE *file = fopen(path, "r");
  if (!file) return;
  parse(file);
  fclose(file);
  seen = now;
  is_read = 1;
}

static int find(const char *key, char *value) {
  for (int i = 0; i < line_count; i++)
    if (!strcmp(lines[i].key, key)) { strcpy(value, lines[i].value); return 1; }
  return 0;
}

/* Called once per call of the binding: everything within one call is of one moment. */
static void look(void) { pthread_mutex_lock(&lock); refresh(); pthread_mutex_unlock(&lock); }

/* A value of a GPU, or of all GPUs; 0 when neither is said. */
static int of_gpu(u32 gpu, const char *name, char *value) {
  char key[96];
  if (!line_count) return 0;
  pthread_mutex_lock(&lock);
  snprintf(key, sizeof key, "%u.%s", gpu, name);
  int found = find(key, value);
  if (!found) { snprintf(key, sizeof key, "all.%s", name); found = find(key, value); }
  pthread_mutex_unlock(&lock);
  return found;
}

static int of_node(const char *name, char *value) {
  if (!line_count) return 0;
  pthread_mutex_lock(&lock);
  int found = find(name, value);
  pthread_mutex_unlock(&lock);
  return found;
}

static double number(u32 gpu, const char *name, double otherwise) {
  char value[256];
  return of_gpu(gpu, name, value) ? strtod(value, NULL) : otherwise;
}

static int forced(const char *prefix, u32 gpu, const char *function, int *code) {
  char name[96], value[256];
  if (!line_count) return 0;
  snprintf(name, sizeof name, "return.%s", function);
  int found = prefix ? of_gpu(gpu, name, value) : of_node(name, value);
  if (found) *code = atoi(value);
  return found;
}

static void rest(void) { struct timespec pause = {0, 10000000}; nanosleep(&pause, NULL); look(); }
static void hang(u32 gpu) { for (double waited = 0; waited < number(gpu, "hang", 0); waited += 0.01) rest(); }
static void hang_node(void) {
  char value[256];
  for (double waited = 0; of_node("hang", value) && waited < atof(value); waited += 0.01) rest();
}

static int enter_node(const char *function) {
  int code = OK;
  look();
  if (forced(NULL, 0, function, &code)) return code;
  return open_count ? OK : UNINITIALIZED;
}

static int enter(Device *device, const char *function) {
  int code = OK;
  look();
  if (!open_count) return UNINITIALIZED;
  if (forced(NULL, 0, function, &code)) return code;
  if (number(device->gpu, "lost", 0)) return LOST;
  hang(device->gpu);
  if (forced("gpu", device->gpu, function, &code)) return code;
  return OK;
}

#define NODE do { int code_ = enter_node(__func__); if (code_) return code_; } while (0)
#define ANY(device) do { int code_ = enter(device, __func__); if (code_) return code_; } while (0)
#define WHOLE(device) do { ANY(device); if ((device)->is_mig) return INVALID; } while (0)
#define NOT_ON_MIG(device) do { WHOLE(device); if (number((device)->gpu, "mig", 0)) return UNSUPPORTED; } while (0)

static int text(char *buffer, u32 size, const char *value) { snprintf(buffer, size, "%s", value); return OK; }

/* --- library and node */
int nvmlInitWithFlags(u32 flags) {
  (void)flags;
  int code = OK;
  look();
  if (forced(NULL, 0, __func__, &code) && code) return code;
  hang_node();
  open_count++;
  return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!open_count) return UNINITIALIZED; open_count--; return OK; }
const char *nvmlErrorString(int code) { static char said[32]; snprintf(said, sizeof said, "code %d", code); return said; }
int nvmlSystemGetDriverVersion(char *buffer, u32 size) {
  char value[256];
  NODE;
  return text(buffer, size, of_node("driver", value) ? value : "570.86.15");
}
int nvmlSystemGetNVMLVersion(char *buffer, u32 size) { NODE; return text(buffer, size, "12.570.86"); }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { NODE; *version = 12080; return OK; }

static u32 listed(u32 *physical) {
  char value[256];
  u32 count = 0;
  if (!of_node("order", value)) {
    const char *said = getenv("NVML_STANDIN_GPUS");
    count = said ? (u32)atoi(said) : 8;
    for (u32 i = 0; i < count; i++) physical[i] = i;
    return count;
  }
  for (char *rest = value, *part; (part = strsep(&rest, ",")) && count < GPUS_MAX;) physical[count++] = (u32)atoi(part);
  return count;
}
int nvmlDeviceGetCount_v2(u32 *count) { u32 physical[GPUS_MAX]; NODE; *count = listed(physical); return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, Device **device) {
  u32 physical[GPUS_MAX];
  NODE;
  if (index >= listed(physical)) return INVALID;
  Device *found = &gpus[physical[index]];
  found->gpu = physical[index];
  int code = enter(found, __func__);
  if (!code) *device = found;
  return code;
}

/* --- identity */
int nvmlDeviceGetIndex(Device *device, u32 *index) { WHOLE(device); *index = device->gpu; return OK; }
int nvmlDeviceGetUUID(Device *device, char *buffer, u32 size) {
  char value[256];
  ANY(device);
  if (!of_gpu(device->gpu, "uuid", value)) snprintf(value, sizeof value, "GPU-00000000-0000-4000-8000-%012u", device->gpu);
  if (device->is_mig) memcpy(value, "MIG", 3);
  return text(buffer, size, value);
}
int nvmlDeviceGetSerial(Device *device, char *buffer, u32 size) {
  char value[256];
  WHOLE(device);
  if (!of_gpu(device->gpu, "serial", value)) snprintf(value, sizeof value, "16520000%05u", device->gpu);
  return text(buffer, size, value);
}
static int instance(Device *device, u32 *gi, u32 *ci, char *profile, u64 *bytes) {
  char value[256];
  if (!of_gpu(device->gpu, "instances", value)) return NOT_FOUND;
  char *rest = value, *part = NULL;
  for (u32 i = 0; i <= device->instance; i++) if (!(part = strsep(&rest, ","))) return NOT_FOUND;
  return sscanf(part, "%u:%u:%31[^:]:%llu", gi, ci, profile, bytes) == 4 ? OK : NOT_FOUND;
}
int nvmlDeviceGetName(Device *device, char *buffer, u32 size) {
  char name[128] = "NVIDIA H100 80GB HBM3", profile[32];
  u32 gi, ci;
  u64 bytes;
  ANY(device);
  if (device->is_mig) {
    int code = instance(device, &gi, &ci, profile, &bytes);
    if (code) return code;
    strcat(strcat(name, " MIG "), profile);
  }
  return text(buffer, size, name);
}
int nvmlDeviceGetVbiosVersion(Device *device, char *buffer, u32 size) { WHOLE(device); return text(buffer, size, "96.00.89.00.01"); }
int nvmlDeviceGetMinorNumber(Device *device, u32 *minor) { WHOLE(device); *minor = device->gpu; return OK; }
typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
  WHOLE(device);
  memset(pci, 0, sizeof *pci);
  pci->domain = (u32)number(device->gpu, "domain", 0);
  pci->bus = (u32)number(device->gpu, "bus", 0x10 + device->gpu);
  snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:00.0", pci->domain & 0xFFFF, pci->bus & 0xFF);
  snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:00.0", pci->domain, pci->bus & 0xFF);
  return OK;
}

/* --- readings that are one number: function, key, what it is unless said otherwise, whether a split GPU has it */
#define PLAIN(function, type, key, otherwise, check)                                                      \
  int function(Device *device, type *value) { check(device); *value = (type)number(device->gpu, key, otherwise); return OK; }
PLAIN(nvmlDeviceGetPowerUsage, u32, "power", 412000, WHOLE)
PLAIN(nvmlDeviceGetEnforcedPowerLimit, u32, "power_limit", 700000, WHOLE)
PLAIN(nvmlDeviceGetPowerManagementLimit, u32, "power_limit", 700000, WHOLE)
PLAIN(nvmlDeviceGetPowerManagementDefaultLimit, u32, "power_limit_default", 700000, WHOLE)
PLAIN(nvmlDeviceGetTotalEnergyConsumption, u64, "energy", 81234567890.0, WHOLE)
PLAIN(nvmlDeviceGetFanSpeed, u32, "fan", 38, WHOLE)
PLAIN(nvmlDeviceGetPerformanceState, u32, "pstate", 0, WHOLE)
PLAIN(nvmlDeviceGetPcieReplayCounter, u32, "pcie_replay", 2, WHOLE)
PLAIN(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie_generation", 5, WHOLE)
PLAIN(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie_generation_max", 5, WHOLE)
PLAIN(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie_width", 16, WHOLE)
PLAIN(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie_width_max", 16, WHOLE)
PLAIN(nvmlDeviceGetPersistenceMode, u32, "persistence", 1, WHOLE)
PLAIN(nvmlDeviceGetComputeMode, u32, "compute_mode", 0, WHOLE)
PLAIN(nvmlDeviceGetDisplayActive, u32, "display", 0, WHOLE)
PLAIN(nvmlDeviceGetDisplayMode, u32, "display", 0, WHOLE)
PLAIN(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "clock_events", 0, WHOLE)
#ifndef OLD_DRIVER
PLAIN(nvmlDeviceGetCurrentClocksEventReasons, u64, "clock_events", 0, WHOLE)
typedef struct { u32 version, sensor; int celsius; } Temperature;
int nvmlDeviceGetTemperatureV(Device *device, Temperature *found) { WHOLE(device); found->celsius = (int)number(device->gpu, "temperature", 61); return OK; }
typedef struct { u32 version; int celsius; } Margin;
int nvmlDeviceGetMarginTemperature(Device *device, Margin *found) { WHOLE(device); found->celsius = (int)number(device->gpu, "margin", 26); return OK; }
typedef struct { u32 version, is_unrepairable; } Unrepairable;
int nvmlDeviceGetUnrepairableMemoryFlag_v1(Device *device, Unrepairable *found) { WHOLE(device); found->is_unrepairable = (u32)number(device->gpu, "unrepairable", 0); return OK; }
typedef struct { u32 version; u64 counts[11]; u32 is_exceeded; } Sram;
int nvmlDeviceGetSramEccErrorStatus(Device *device, Sram *found) { WHOLE(device); found->is_exceeded = (u32)number(device->gpu, "sram_exceeded", 0); return OK; }
typedef struct { u32 version; uint8_t cluster[16]; int status; u32 clique, state, mask; uint8_t health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(Device *device, Fabric *found) {
  WHOLE(device);
  found->status = (int)number(device->gpu, "fabric_status", 0);
  found->state = (u32)number(device->gpu, "fabric_state", 3);
  if (found->version >> 24 == 3) found->health = (uint8_t)number(device->gpu, "fabric_health", 1);
  return OK;
}
#endif
int nvmlDeviceGetTemperature(Device *device, u32 sensor, u32 *celsius) { (void)sensor; WHOLE(device); *celsius = (u32)number(device->gpu, "temperature", 61); return OK; }
int nvmlDeviceGetTemperatureThreshold(Device *device, u32 which, u32 *celsius) { (void)which; WHOLE(device); *celsius = (u32)number(device->gpu, "slowdown", 87); return OK; }
int nvmlDeviceGetClockInfo(Device *device, u32 type, u32 *mhz) { WHOLE(device); *mhz = (u32)(type == 2 ? number(device->gpu, "memory_clock", 2619) : number(device->gpu, "sm_clock", 1755)); return OK; }
int nvmlDeviceGetMaxClockInfo(Device *device, u32 type, u32 *mhz) { WHOLE(device); *mhz = type == 2 ? 2619 : 1980; return OK; }
typedef struct { u32 gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device *device, Utilization *found) {
  NOT_ON_MIG(device);
  found->gpu = (u32)number(device->gpu, "utilization", 97);
  found->memory = (u32)number(device->gpu, "memory_utilization", 41);
  return OK;
}
int nvmlDeviceGetEncoderUtilization(Device *device, u32 *percent, u32 *period_us) { NOT_ON_MIG(device); *percent = 0; *period_us = 167000; return OK; }
int nvmlDeviceGetDecoderUtilization(Device *device, u32 *percent, u32 *period_us) { NOT_ON_MIG(device); *percent = 0; *period_us = 167000; return OK; }

int nvmlDeviceGetPcieThroughput(Device *device, u32 counter, u32 *kib_per_second) { WHOLE(device); *kib_per_second = 1000 + counter; return OK; }
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) { WHOLE(device); *major = 9; *minor = 0; return OK; }

/* --- memory */
static int memory_of(Device *device, u64 *total, u64 *used, u64 *reserved) {
  char profile[32];
  u32 gi, ci;
  *total = (u64)number(device->gpu, "memory_total", 85520809984.0);
  *used = (u64)number(device->gpu, "memory_used", 70000000000.0);
  *reserved = 600000000;
  if (!device->is_mig) return OK;
  *used = 1000000000;
  *reserved = 20000000;
  return instance(device, &gi, &ci, profile, total);
}
typedef struct { u64 total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Device *device, Memory *found) {
  u64 reserved;
  ANY(device);
  int code = memory_of(device, &found->total, &found->used, &reserved);
  found->free = found->total - found->used - reserved;
  found->used += reserved;
  return code;
}
#ifndef OLD_DRIVER
typedef struct { u32 version; u64 total, reserved, free, used; } Memory2;
int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *found) {
  ANY(device);
  int code = memory_of(device, &found->total, &found->used, &found->reserved);
  found->free = found->total - found->used - found->reserved;
  return code;
}
#endif
typedef struct { u64 total, free, used; } Bar1;
int nvmlDeviceGetBAR1MemoryInfo(Device *device, Bar1 *found) { WHOLE(device); found->total = 137438953472ULL; found->used = 1048576; found->free = found->total - found->used; return OK; }

/* --- errors */
int nvmlDeviceGetTotalEccErrors(Device *device, u32 kind, u32 counter, u64 *count) {
  char name[32];
  WHOLE(device);
  snprintf(name, sizeof name, "ecc.%u.%u", kind, counter);
  *count = (u64)number(device->gpu, name, 0);
  return OK;
}
int nvmlDeviceGetRemappedRows(Device *device, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failed) {
  NOT_ON_MIG(device);
  *correctable = (u32)number(device->gpu, "field.142", 0);
  *uncorrectable = (u32)number(device->gpu, "field.143", 0);
  *pending = (u32)number(device->gpu, "field.144", 0);
  *failed = (u32)number(device->gpu, "field.145", 0);
  return OK;
}
typedef struct { u32 max, high, partial, low, none; } Banks;
int nvmlDeviceGetRowRemapperHistogram(Device *device, Banks *found) { WHOLE(device); *found = (Banks){2560, 0, 0, 0, 0}; return OK; }

/* --- NVLink and field values */
int nvmlDeviceGetNvLinkState(Device *device, u32 link, u32 *is_active) {
  NOT_ON_MIG(device);
  u32 links = (u32)number(device->gpu, "links", 18);
  if (link >= links) return links ? INVALID : UNSUPPORTED;
  *is_active = 1;
  return OK;
}
static int known_field(u32 gpu, FieldValue *field) {
  u32 links = number(gpu, "mig", 0) ? 0 : (u32)number(gpu, "links", 18);
  field->type = 3;
  field->value.u = 0;
  switch (field->id) {
    case 91: field->type = 1; field->value.u = links; return links ? OK : UNSUPPORTED;
    case 161: case 162: case 163: return field->scope < links ? OK : UNSUPPORTED;
    case 165: field->type = 1; field->value.u = 1; return field->scope < links ? OK : UNSUPPORTED;
    case 138: field->value.u = 1000 + field->scope; return field->scope < links ? OK : UNSUPPORTED;
    case 139: field->value.u = 2000 + field->scope; return field->scope < links ? OK : UNSUPPORTED;
    case 142: case 143: case 144: case 145: field->type = 1; return number(gpu, "mig", 0) ? UNSUPPORTED : OK;
    case 3: case 4: case 5: case 6: case 74: case 75: case 76: case 77: case 78: case 79: case 94: return OK;
    case 82: field->type = 1; field->value.u = (u64)number(gpu, "memory_temperature", 71); return OK;
    case 83: field->value.u = (u64)number(gpu, "energy", 81234567890.0); return OK;
  }
#ifndef OLD_DRIVER
  switch (field->id) {
    case 185: case 186: field->type = 1; field->value.u = (u64)number(gpu, "power", 412000); return OK;
    case 189: case 190: field->type = 1; field->value.u = (u64)number(gpu, "power_limit", 700000); return OK;
    case 197: field->value.u = 7000000; return OK;
    case 198: field->value.u = 8000000; return OK;
    case 230: field->type = 1; field->value.u = (u64)number(gpu, "recovery", 0); return OK;
    case 169: case 173: case 174: case 175: case 176: case 177: case 178: case 179: case 180: case 181: case 182:
    case 269: case 270: case 271: return OK;
  }
#endif
  return field->id > 200 ? INVALID : UNSUPPORTED; /* a driver that does not know an id calls it an invalid argument */
}
static void one_field(u32 gpu, FieldValue *field) {
  char name[48], said[256];
  field->code = known_field(gpu, field);
  if (!line_count) return;
  snprintf(name, sizeof name, "field.%u.%u", field->id, field->scope);
  if (!of_gpu(gpu, name, said)) {
    snprintf(name, sizeof name, "field.%u", field->id);
    if (!of_gpu(gpu, name, said)) return;
  }
  field->code = OK;
  if (said[0] == '!') field->code = atoi(said + 1);
  else if (!strncmp(said, "d:", 2)) { field->type = 0; field->value.d = strtod(said + 2, NULL); }
  else if (!strncmp(said, "i:", 2)) { field->type = 5; field->value.u = 0xDEADBEEF00000000ULL; field->value.i = atoi(said + 2); }
  else { field->type = 3; field->value.u = strtoull(said, NULL, 10); }
}
int nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *values) {
  WHOLE(device);
  u32 poison = (u32)number(device->gpu, "poison_field", 0);
  for (int i = 0; i < count; i++) if (poison && values[i].id == poison) return 999;
  for (int i = 0; i < count; i++) one_field(device->gpu, &values[i]);
  return OK;
}

/* --- processes */
typedef struct { u32 pid; u64 bytes; u32 gi, ci; } ProcessInfo;
static int processes(Device *device, u32 *count, ProcessInfo *found) {
  char value[256];
  u32 room = found ? *count : 0, listed = 0;
  if (of_gpu(device->gpu, "processes", value))
    for (char *rest = value, *part; (part = strsep(&rest, ","));) {
      ProcessInfo one = {0, 0, 0xFFFFFFFF, 0xFFFFFFFF};
      if (sscanf(part, "%u:%llu", &one.pid, &one.bytes) < 1) continue;
      if (listed < room) found[listed] = one;
      listed++;
    }
  *count = listed;
  return listed > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, u32 *count, ProcessInfo *found) { WHOLE(device); return processes(device, count, found); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(Device *device, u32 *count, ProcessInfo *found) { (void)found; WHOLE(device); *count = 0; return OK; }
#ifndef OLD_DRIVER
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, u32 *count, ProcessInfo *found) { WHOLE(device); return processes(device, count, found); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, u32 *count, ProcessInfo *found) { (void)found; WHOLE(device); *count = 0; return OK; }
#endif

/* --- MIG */
int nvmlDeviceGetMigMode(Device *device, u32 *current, u32 *pending) { WHOLE(device); *current = *pending = (u32)number(device->gpu, "mig", 0); return OK; }
int nvmlDeviceGetMaxMigDeviceCount(Device *device, u32 *count) { WHOLE(device); *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, u32 index, Device **mig) {
  char profile[32];
  u32 gi, ci;
  u64 bytes;
  WHOLE(device);
  if (index >= INSTANCES_MAX) return INVALID;
  Device *found = &instances[device->gpu][index];
  *found = (Device){1, device->gpu, index};
  int code = instance(found, &gi, &ci, profile, &bytes);
  if (!code) *mig = found;
  return code;
}
static int ids(Device *device, u32 *gi, u32 *ci) { char profile[32]; u64 bytes; return device->is_mig ? instance(device, gi, ci, profile, &bytes) : UNSUPPORTED; }
int nvmlDeviceGetGpuInstanceId(Device *device, u32 *gi) { u32 ci; ANY(device); return ids(device, gi, &ci); }
int nvmlDeviceGetComputeInstanceId(Device *device, u32 *ci) { u32 gi; ANY(device); return ids(device, &gi, ci); }
int nvmlDeviceIsMigDeviceHandle(Device *device, u32 *is_mig) { ANY(device); *is_mig = device->is_mig; return OK; }

/* --- events */
static u64 newest_xid(u64 after, char *value) {
  u64 next = 0, number_;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < line_count; i++)
    if (sscanf(lines[i].key, "xid.%llu", &number_) == 1 && number_ > after && (!next || number_ < next)) {
      next = number_;
      strcpy(value, lines[i].value);
    }
  pthread_mutex_unlock(&lock);
  return next;
}
int nvmlEventSetCreate(void **set) {
  char value[256];
  NODE;
  xid_delivered = 0;
  for (u64 next; (next = newest_xid(xid_delivered, value));) xid_delivered = next; /* no replay of older ones */
  registered = 0;
  *set = &registered;
  return OK;
}
int nvmlDeviceRegisterEvents(Device *device, u64 types, void *set) { (void)types; (void)set; WHOLE(device); registered |= 1ULL << device->gpu; return OK; }
int nvmlEventSetFree(void *set) { (void)set; NODE; return OK; }
typedef struct { Device *device; u64 type, data; u32 gi, ci; } EventData;
int nvmlEventSetWait_v2(void *set, EventData *found, u32 timeout_ms) {
  char value[256];
  u32 gpu, code, gi = 0xFFFFFFFF, ci = 0xFFFFFFFF;
  (void)set;
  NODE;
  u64 next = newest_xid(xid_delivered, value);
  if (!next && timeout_ms) { struct timespec wait = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L}; nanosleep(&wait, NULL); }
  if (!next) return TIMEOUT;
  xid_delivered = next;
  if (sscanf(value, "%u %u %u %u", &gpu, &code, &gi, &ci) < 2 || !(registered >> gpu & 1)) return TIMEOUT;
  gpus[gpu].gpu = gpu;
  *found = (EventData){&gpus[gpu], 8, code, gi, ci};
  return OK;
}

#ifndef OLD_DRIVER
/* --- GPM: a sample remembers whose it is; two of one GPU give the numbers of the file */
typedef struct { u32 version, is_supported; } GpmSupport;
typedef struct { u32 gpu, instance, is_taken; } GpmSample;
typedef struct { u32 id; int code; double value; const char *names[3]; } GpmMetric;
typedef struct { u32 version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmRequest;
int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *found) { WHOLE(device); found->is_supported = !number(device->gpu, "no_gpm", 0); return OK; }
int nvmlGpmSampleAlloc(GpmSample **sample) { *sample = calloc(1, sizeof **sample); return OK; }
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(Device *device, GpmSample *sample) { NOT_ON_MIG(device); *sample = (GpmSample){device->gpu, 0, 1}; return OK; }
int nvmlGpmMigSampleGet(Device *device, u32 gi, GpmSample *sample) { WHOLE(device); *sample = (GpmSample){device->gpu, gi, 1}; return OK; }
int nvmlGpmMetricsGet(GpmRequest *request) {
  char name[32];
  GpmSample *a = request->first, *b = request->second;
  look();
  if (request->version != 1 || !a->is_taken || !b->is_taken || a->gpu != b->gpu || a->instance != b->instance || a == b) return INVALID;
  for (u32 i = 0; i < request->count; i++) {
    GpmMetric *metric = &request->metrics[i];
    snprintf(name, sizeof name, "gpm.%u", metric->id);
    metric->value = number(b->gpu, name, metric->id == 2 ? 82.5 : 10.0);
    metric->code = OK;
  }
  return OK;
}
#endif
