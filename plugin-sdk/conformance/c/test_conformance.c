// The cases of the suite that need no sandbox, in the SDK's own harness.

#include "tidegate/tg_harness.h"

int main(int count, char **paths) {
    if (count == 1) tg_test_cases("../cases/*.json");
    for (int path = 1; path < count; path++) tg_test_cases(paths[path]);
    return tg_test_end();
}
