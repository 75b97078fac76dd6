/* Stands in for the CUDA driver: three devices, of which the second has a context and the third
   answers nothing. */
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int cuDeviceGetCount(int* devices) {
  *devices = 3;
  return 0;
}

EXPORTED int cuDeviceGet(int* device, int index) {
  if (index > 1) return 101;
  *device = index + 10;
  return 0;
}

EXPORTED int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, device, 16);
  uuid[0] = 0x5f;
  return 0;
}

EXPORTED int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = device == 11;
  return 0;
}
