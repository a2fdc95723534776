// The SDK, compiled with the operator as one file.

#include "parts/memory.c"
#include "parts/text.c"
#include "parts/format.c"
#include "parts/number.c"
#include "parts/real.c"
#include "parts/record.c"
#include "parts/measure.c"
#include "parts/answer.c"
#include "parts/json.c"
#include "parts/config.c"
#include "parts/runner.c"
#include "parts/tokens.c"
#ifdef __wasm__
#include "parts/guest.c"
#ifdef TIDEGATE_TOKENS
#include "parts/guest_tokens.c"
#endif
#endif
