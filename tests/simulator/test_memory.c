#include "bench.h"
int run_memory_tests(void)
{
    return 0;
}
