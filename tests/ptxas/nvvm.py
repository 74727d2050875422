#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles a kernel's text for NVIDIA's devices by the optimiser that their driver has, without a device.

    nvvm.py TEXT.cl BUILTINS.clh OUT.ptx

The driver's OpenCL compiler is a clang before libnvvm, which is also a part of CUDA. clang 13 or 14 ($NVVM_CLANG names another
that has typed pointers) writes the text as it stands in LLVM's language, unoptimised; what libnvvm does not know of that is
taken out or said otherwise; and libnvvm ($NVVM, or that of the Python package nvidia-cuda-nvcc-cu12, of CUDA 12) makes PTX of it.
What it makes differs from what clang alone does: where values move between registers, what is done without a branch, what goes
to memory. `test_spills.py ... --nvvm` lists the last for all kernels.
"""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

LAYOUT = ("e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
          "v64:64:64-v128:128:128-n16:32:64")
KNOWN_ATTRIBUTES = ("alwaysinline", "convergent", "noinline", "nounwind", "readnone", "readonly", "argmemonly")
NEWER_ATTRIBUTES = ("noundef", "nofree", "nosync", "willreturn", "mustprogress", "immarg", "nocallback")
FAST = r"(?:(?:contract|fast|nnan|ninf|nsz|arcp|afn|reassoc) )"


# What clang is to make of a text, whoever optimises it.
FRONT_END = ("-x", "cl", "-cl-std=CL1.2", "-target", "nvptx64-nvidia-nvcl", "-Xclang", "-target-cpu", "-Xclang", "sm_75", "-Xclang",
             "-cl-ext=+cl_khr_fp16", "-S", "-nogpulib", "-Xclang", "-finclude-default-header", "-ffp-contract=fast", "-cl-mad-enable", "-w")


def find_clang():
    for name in (os.environ.get("NVVM_CLANG"), "clang-13", "clang-14"):
        path = name and shutil.which(name)
        if path:
            return path
    return None


def find_library():
    found = [os.environ.get("NVVM"), "/usr/local/cuda/nvvm/lib64/libnvvm.so"]
    for folder in sys.path:
        found += pathlib.Path(folder or ".").glob("nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so")
    return next((str(path) for path in found if path and os.path.exists(path)), None)


def split_types(parameters):
    """A function's parameters, at the commas that are not within a type."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "({[<") - (letter in ")}]>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def kernel_notes(ir):
    """What libnvvm is to be told of the text's kernel."""
    name, parameters = re.search(r"define ptx_kernel void (@\w+)\((.*?)\) (?:#|!|\{|local)", ir).groups()
    types = (re.sub(r" (byval|align \d+|nocapture|readonly|writeonly)\b", "", part).rsplit(" %", 1)[0].strip()
             for part in split_types(parameters))
    return (f"\n!nvvm.annotations = !{{!9001}}\n!9001 = !{{void ({', '.join(types)})* {name}, !\"kernel\", i32 1}}\n"
            "!nvvmir.version = !{!9002}\n!9002 = !{i32 2, i32 0}\n")


def known_attributes(match):
    kept = [word for word in KNOWN_ATTRIBUTES if re.search(rf"\b{word}\b", match[0])]
    return f"attributes {match[1]} = {{ {' '.join(kept)} }}"


def to_dialect(ir):
    """clang 13's language in that of LLVM 7, which libnvvm speaks for devices up to 9.0."""
    ir = re.sub(r"^attributes (#\d+) = \{[^}]*\}$", known_attributes, ir, flags=re.M)
    ir = re.sub(rf"\b(?:{'|'.join(NEWER_ATTRIBUTES)})\b ?", "", ir)
    ir = re.sub(r"\b(byval|sret)\(%[\w.]+\)", r"\1", ir)
    ir = re.sub(rf"= (phi|select) {FAST}+", r"= \1 ", ir)
    ir = re.sub(rf"= fneg ({FAST}*)(float|<\d+ x float>) (%[\w.]+)", r"= fsub \1\2 -0.000000e+00, \3", ir)
    ir = re.sub(r"\bpoison\b", "undef", ir)
    ir = ir.replace("dso_local ", "").replace("spir_kernel", "ptx_kernel").replace("spir_func ", "")
    ir = ir.replace("define available_externally", "define internal")
    ir = re.sub(r"^source_filename.*$", "", ir, flags=re.M)
    ir = re.sub(r'target datalayout = ".*"', f'target datalayout = "{LAYOUT}"', ir)
    ir = re.sub(r'target triple = ".*"', 'target triple = "nvptx64-nvidia-cuda"', ir)
    return ir + kernel_notes(ir)


def optimise(library, ir, sm):
    """The PTX that libnvvm makes of it."""
    nvvm, program, size = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_size_t()
    data = ir.encode()
    options = [f"-arch=compute_{sm}".encode(), b"-opt=3", b"-fma=1", b"-ftz=1"]

    def text(prefix):
        getattr(nvvm, prefix + "Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(nvvm, prefix)(program, buffer)
        return buffer.value.decode()
    if nvvm.nvvmCreateProgram(ctypes.byref(program)):
        raise RuntimeError(f"{library}: there is no program to be had")
    try:
        failed = nvvm.nvvmAddModuleToProgram(program, data, ctypes.c_size_t(len(data)), b"kernel")
        failed = failed or nvvm.nvvmCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if failed:
            raise RuntimeError(f"{library}: {text('nvvmGetProgramLog')}")
        return text("nvvmGetCompiledResult")
    finally:
        nvvm.nvvmDestroyProgram(ctypes.byref(program))


def compile_text(clang, library, source, builtins, sm):
    done = subprocess.run([clang, *FRONT_END, "-O1", "-fno-discard-value-names", "-Xclang", "-disable-llvm-passes", "-emit-llvm",
                           "-include", builtins, source, "-o", "-"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{source}: {done.stderr[-2000:]}")
    return optimise(library, to_dialect(done.stdout), sm)


def main():
    clang, library = find_clang(), find_library()
    if len(sys.argv) != 4 or not clang or not library:
        print(__doc__ if len(sys.argv) != 4 else "there is no clang 13 or 14" if not clang else "there is no libnvvm", file=sys.stderr)
        return 2
    capability = re.search(r"#define CLATTN_COMPUTE_CAPABILITY (\d+)", pathlib.Path(sys.argv[1]).read_text())
    pathlib.Path(sys.argv[3]).write_text(compile_text(clang, library, sys.argv[1], sys.argv[2], capability[1] if capability else "90"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
