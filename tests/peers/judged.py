# SPDX-License-Identifier: BSD-2-Clause
"""What the scripts share that judge `clattn run` and PyTorch by float64 (exactness.py, offsets.py)."""
import os
import subprocess
import sys

LEAST = {"fp32": 2.0 ** -24, "fp16": 2.0 ** -11, "bf16": 2.0 ** -8}  # a rounding, as a share of the largest value


def stop(status, text):
    print("%s: %s" % (os.path.basename(sys.argv[0]), text), file=sys.stderr)
    sys.exit(status)


try:
    import numpy as np
    import torch
except ImportError as error:
    stop(2, "PyTorch and NumPy are needed (pip install torch numpy): %s" % error)

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def save(path, tensor):
    """As .npy, of which bf16 is no type: its 16 bits then."""
    np.save(path, tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy())


def load(path):
    array = np.load(path)
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def run(call, wanted, folder):
    """The outputs of a call of the command by their names; wanted: name and option of each."""
    call = list(call)
    for name, option in wanted.items():
        call += ["--" + option, os.path.join(folder, "out-" + name + ".npy")]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        stop(4, "%s\n%s" % (" ".join(call), done.stderr))
    return {name: load(os.path.join(folder, "out-" + name + ".npy")) for name in wanted}
