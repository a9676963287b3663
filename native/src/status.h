#pragma once
#define NAPI_VERSION 8
#include <node_api.h>

// The outcome of one system call: error 0 is success. Travels from the pool thread to the loop by value.
struct Status {
  int error = 0;
  const char* syscall = "";
};

Status statusOk();
/** Takes errno as it is now. */
Status statusFromErrno(const char* syscall);
Status statusOf(int error, const char* syscall);

/** An Error with `code` ("EIO"), `errno` (negative, as Node's own) and `syscall`. */
napi_value errorOf(napi_env env, const Status& status);
void throwStatus(napi_env env, const Status& status);
/** For calls that break the contract of an export: a bug of the caller, TypeError. */
void throwMisuse(napi_env env, const char* message);
