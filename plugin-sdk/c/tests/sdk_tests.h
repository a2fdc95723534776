// What the SDK's own tests share: the operator is whatever a test wants it to be.

#ifndef SDK_TESTS_H
#define SDK_TESTS_H

#include "parts/testing.h"

// What the operator does with each record from here on, with `{}` as its configuration.
void operate(void (*process)(tg_record *record));
// What a table makes of a configuration: false if it is refused.
bool configure(const tg_table *table, void *settings, const char *config);

void test_golden(const char *directory);
void test_answers(void);
void test_text(void);
void test_json(void);
void test_config(void);
void test_cases(void);
void test_declared(void);
void test_tokens(void);

#endif
