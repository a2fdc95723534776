// The harness for tests on this machine, compiled with them as one file. In a component nothing is left of it.

#ifndef __wasm__
#define _POSIX_C_SOURCE 200809L
#include "parts/declared.c"
#include "parts/encode.c"
#include "parts/decode.c"
#include "parts/changed.c"
#include "parts/measured.c"
#include "parts/harness.c"
#ifdef TIDEGATE_TOKENS
#include "parts/harness_tokens.c"
#endif
#include "parts/case_reader.c"
#include "parts/case_compare.c"
#include "parts/case_tokens.c"
#include "parts/cases.c"
#else
typedef int tg_no_harness;
#endif
