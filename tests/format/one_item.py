# SPDX-License-Identifier: BSD-2-Clause
"""Kernels over vectors of their own (cl/common/lanes.clh) begin by CLATTN_ONE_ITEM, whose hint Intel's compiler needs.

    one_item.py ROOT
"""
import re
import sys

import sources

KERNEL = re.compile(r'^__kernel\b(.*)', re.M)


def main(root):
    seen, wrong = 0, []
    for path in sources.kernel_files(root):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if '#include "common/lanes.clh"' not in text:
            continue
        for kernel in KERNEL.finditer(text):
            seen += 1
            if not kernel.group(1).startswith(' CLATTN_ONE_ITEM '):
                wrong.append(f'{path}:{text.count(chr(10), 0, kernel.start()) + 1}: {kernel.group(0)}')
    print(f'{seen} kernels of one work-item, {len(wrong)} without CLATTN_ONE_ITEM', *wrong, sep='\n')
    return 1 if wrong or not seen else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
