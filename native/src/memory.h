#pragma once
#include <node_api.h>

napi_value memoryForgetProgram(napi_env env, napi_callback_info info);
