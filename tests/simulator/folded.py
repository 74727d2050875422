#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Vector instructions against LLVM: what its optimiser makes of the same operation on constants.

    folded.py TEST_INSTRUCTIONS [OPT]

A third source beside the simulator and its definitions. OPT folds each row's IR for constants, by the target's own rules where it is an
intrinsic of AMD's; TEST_INSTRUCTIONS executes the instruction on them. Where OPT is missing the exit status is 77, which Meson calls skipped.
"""
import random
import re
import shutil
import subprocess
import sys
import tempfile

EDGES = [0, 1, 2, 31, 32, 0xff, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x80000001, 0x00800000, 0x3f800000, 0xbf800000,
         0x3f000000, 0x40490fdb, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x12345678, 0x0c0d0206, 0x4f7ffffe, 0x3c00bc00, 0x007fffff,
         0x00400000, 0x7e800000, 0x4b000001, 0xcf000000, 0x7bff, 0x7c00, 0xfc00, 0x0400, 0x477ff000, 0x33000001]
CASES = 600  # of an instruction with several sources, of edges; and a third as many of random bits

# A source as a float, as a half, as 24 bits; {a}, {b}, {c} are its bits.
F = {name: f"float bitcast (i32 {{{name}}} to float)" for name in "abc"}
H = {name: f"half bitcast (i16 {{{name}l}} to half)" for name in "abc"}
I = {name: f"i32 {{{name}}}" for name in "abc"}


def of_float(call):
    return [f"%f = {call}", "%x = bitcast float %f to i32"]


def call(result, name, *arguments):
    return f"call {result} @llvm.{name}({', '.join(arguments)})"


def floats(name, count):
    return of_float(call("float", name, *[F[source] for source in "abc"[:count]]))


def integers(operation, first="a", second="b"):
    return [f"%x = {operation} i32 {{{first}}}, {{{second}}}"]


def mixed(*steps):
    """Steps in which %1, %2 ... are what the steps before gave; the last is the result."""
    lines = [f"%s{number} = {re.sub('%([0-9]+)', r'%s' + chr(92) + '1', step)}" for number, step in enumerate(steps, 1)]
    lines[-1] = re.sub(r"^%s\d+", "%x", lines[-1])
    return lines


def high(extend, shift):
    return mixed(f"{extend} i32 {{a}} to i64", f"{extend} i32 {{b}} to i64", "mul i64 %1, %2", f"{shift} i64 %3, 32", "trunc i64 %4 to i32")


def shifted(operation):
    return mixed("and i32 {a}, 31", f"{operation} i32 {{b}}, %1")


def shifted_16(operation):
    return mixed("trunc i32 {a} to i16", "and i16 %1, 15", "trunc i32 {b} to i16", f"{operation} i16 %3, %2", "zext i16 %4 to i32")


TWO_16 = ["trunc i32 {a} to i16", "trunc i32 {b} to i16"]
NO_SIGNAL = {"v_max_f32", "v_min_f32", "v_max_num_f32", "v_min_num_f32"}
NO_NAN = {"v_med3_f32", "v_med3_num_f32"}  # of a NaN in the third place LLVM 19 takes the larger of the others, in other places the smaller
ROWS = {
    "v_add_f32 v3, v0, v1": of_float(f"fadd {F['a']}, {F['b'].split(' ', 1)[1]}"),
    "v_sub_f32 v3, v0, v1": of_float(f"fsub {F['a']}, {F['b'].split(' ', 1)[1]}"),
    "v_mul_f32 v3, v0, v1": of_float(f"fmul {F['a']}, {F['b'].split(' ', 1)[1]}"),
    "v_fma_f32 v3, v0, v1, v2": floats("fma.f32", 3),
    "v_max_f32 v3, v0, v1": floats("maxnum.f32", 2),
    "v_min_f32 v3, v0, v1": floats("minnum.f32", 2),
    "v_max_num_f32 v3, v0, v1": floats("maxnum.f32", 2),
    "v_min_num_f32 v3, v0, v1": floats("minnum.f32", 2),
    "v_med3_f32 v3, v0, v1, v2": floats("amdgcn.fmed3.f32", 3),
    "v_med3_num_f32 v3, v0, v1, v2": floats("amdgcn.fmed3.f32", 3),
    "v_floor_f32 v3, v0": floats("floor.f32", 1),
    "v_ceil_f32 v3, v0": floats("ceil.f32", 1),
    "v_trunc_f32 v3, v0": floats("trunc.f32", 1),
    "v_rndne_f32 v3, v0": floats("roundeven.f32", 1),
    "v_frexp_mant_f32 v3, v0": floats("amdgcn.frexp.mant.f32", 1),
    "v_frexp_exp_i32_f32 v3, v0": [f"%x = {call('i32', 'amdgcn.frexp.exp.i32.f32', F['a'])}"],
    "v_ldexp_f32 v3, v0, v1": of_float(call("float", "ldexp.f32.i32", F["a"], I["b"])),
    "v_cvt_i32_f32 v3, v0": [f"%x = {call('i32', 'fptosi.sat.i32.f32', F['a'])}"],
    "v_cvt_u32_f32 v3, v0": [f"%x = {call('i32', 'fptoui.sat.i32.f32', F['a'])}"],
    "v_cvt_f32_i32 v3, v0": of_float("sitofp i32 {a} to float"),
    "v_cvt_f32_u32 v3, v0": of_float("uitofp i32 {a} to float"),
    "v_cvt_f32_f16 v3, v0": of_float(f"fpext {H['a']} to float"),
    "v_cvt_f16_f32 v3, v0": mixed(f"fptrunc {F['a']} to half", "bitcast half %1 to i16", "zext i16 %2 to i32"),
    "v_cvt_f32_ubyte1 v3, v0": mixed("lshr i32 {a}, 8", "and i32 %1, 255", "uitofp i32 %2 to float", "bitcast float %3 to i32"),
    "v_cvt_f32_ubyte3 v3, v0": mixed("lshr i32 {a}, 24", "uitofp i32 %1 to float", "bitcast float %2 to i32"),
    "v_fma_mix_f32 v3, v0, v1, v2 op_sel_hi:[0,1,0]": mixed(f"fpext {H['b']} to float", f"call float @llvm.fma.f32({F['a']}, float %1, {F['c']})",
                                                        "bitcast float %2 to i32"),
    "v_add_u32 v3, v0, v1": integers("add"),
    "v_sub_u32 v3, v0, v1": integers("sub"),
    "v_subrev_u32 v3, v0, v1": integers("sub", "b", "a"),
    "v_and_b32 v3, v0, v1": integers("and"),
    "v_or_b32 v3, v0, v1": integers("or"),
    "v_xor_b32 v3, v0, v1": integers("xor"),
    "v_xnor_b32 v3, v0, v1": mixed("xor i32 {a}, {b}", "xor i32 %1, -1"),
    "v_mul_lo_u32 v3, v0, v1": integers("mul"),
    "v_mul_hi_u32 v3, v0, v1": high("zext", "lshr"),
    "v_mul_hi_i32 v3, v0, v1": high("sext", "ashr"),
    "v_lshlrev_b32 v3, v0, v1": shifted("shl"),
    "v_lshrrev_b32 v3, v0, v1": shifted("lshr"),
    "v_ashrrev_i32 v3, v0, v1": shifted("ashr"),
    "v_lshlrev_b16 v3, v0, v1": shifted_16("shl"),
    "v_lshrrev_b16 v3, v0, v1": shifted_16("lshr"),
    "v_ashrrev_i16 v3, v0, v1": shifted_16("ashr"),
    "v_mul_lo_u16 v3, v0, v1": mixed(*TWO_16, "mul i16 %1, %2", "zext i16 %3 to i32"),
    "v_add_u16 v3, v0, v1": mixed(*TWO_16, "add i16 %1, %2", "zext i16 %3 to i32"),
    "v_sub_u16 v3, v0, v1": mixed(*TWO_16, "sub i16 %1, %2", "zext i16 %3 to i32"),
    "v_max_i32 v3, v0, v1": [f"%x = {call('i32', 'smax.i32', I['a'], I['b'])}"],
    "v_min_i32 v3, v0, v1": [f"%x = {call('i32', 'smin.i32', I['a'], I['b'])}"],
    "v_max_u32 v3, v0, v1": [f"%x = {call('i32', 'umax.i32', I['a'], I['b'])}"],
    "v_min_u32 v3, v0, v1": [f"%x = {call('i32', 'umin.i32', I['a'], I['b'])}"],
    "v_bfrev_b32 v3, v0": [f"%x = {call('i32', 'bitreverse.i32', I['a'])}"],
    "v_not_b32 v3, v0": ["%x = xor i32 {a}, -1"],
    "v_alignbit_b32 v3, v0, v1, v2": [f"%x = {call('i32', 'fshr.i32', I['a'], I['b'], I['c'])}"],
    "v_perm_b32 v3, v0, v1, v2": [f"%x = {call('i32', 'amdgcn.perm', I['a'], I['b'], I['c'])}"],
    "v_bfe_u32 v3, v0, v1, v2": mixed("and i32 {b}, 31", "and i32 {c}, 31", "call i32 @llvm.amdgcn.ubfe.i32(i32 {a}, i32 %1, i32 %2)", "or i32 %3, 0"),
    "v_bfe_i32 v3, v0, v1, v2": mixed("and i32 {b}, 31", "and i32 {c}, 31", "call i32 @llvm.amdgcn.sbfe.i32(i32 {a}, i32 %1, i32 %2)", "or i32 %3, 0"),
    "v_or3_b32 v3, v0, v1, v2": mixed("or i32 {a}, {b}", "or i32 %1, {c}"),
    "v_xad_u32 v3, v0, v1, v2": mixed("xor i32 {a}, {b}", "add i32 %1, {c}"),
    "v_and_or_b32 v3, v0, v1, v2": mixed("and i32 {a}, {b}", "or i32 %1, {c}"),
    "v_lshl_add_u32 v3, v0, v1, v2": mixed("and i32 {b}, 31", "shl i32 {a}, %1", "add i32 %2, {c}"),
    "v_add_lshl_u32 v3, v0, v1, v2": mixed("and i32 {c}, 31", "add i32 {a}, {b}", "shl i32 %2, %1"),
    "v_mad_u32_u24 v3, v0, v1, v2": mixed("and i32 {a}, 16777215", "and i32 {b}, 16777215", "mul i32 %1, %2", "add i32 %3, {c}"),
    "v_mad_i32_i24 v3, v0, v1, v2": mixed("shl i32 {a}, 8", "ashr i32 %1, 8", "shl i32 {b}, 8", "ashr i32 %3, 8", "mul i32 %2, %4", "add i32 %5, {c}"),
}
# Scalar ones take the number behind, what is taken from comes first, and a field's place and width are one number.
ROWS.update({f"s_{name} s3, s0, s1": integers(operation) for name, operation in {
    "add_u32": "add", "sub_u32": "sub", "mul_i32": "mul", "and_b32": "and", "or_b32": "or", "xor_b32": "xor"}.items()})
ROWS.update({f"s_{name} s3, s0, s1": mixed("and i32 {b}, 31", f"{operation} i32 {{a}}, %1") for name, operation in {
    "lshl_b32": "shl", "lshr_b32": "lshr", "ashr_i32": "ashr"}.items()})
ROWS.update({f"s_{name} s3, s0, s1": [f"%x = {call('i32', of, I['a'], I['b'])}"] for name, of in {
    "min_i32": "smin.i32", "max_i32": "smax.i32", "min_u32": "umin.i32", "max_u32": "umax.i32"}.items()})
ROWS.update({f"s_{name} s3, s0": [f"%x = {called}"] for name, called in {
    "brev_b32": call("i32", "bitreverse.i32", I["a"]), "bcnt1_i32_b32": call("i32", "ctpop.i32", I["a"]),
    "abs_i32": call("i32", "abs.i32", I["a"], "i1 false"), "not_b32": "xor i32 {a}, -1"}.items()})
FIELD = ["and i32 {b}, 31", "lshr i32 {b}, 16", "and i32 %2, 127"]
ROWS["s_mul_hi_u32 s3, s0, s1"], ROWS["s_mul_hi_i32 s3, s0, s1"] = high("zext", "lshr"), high("sext", "ashr")
ROWS["s_sext_i32_i8 s3, s0"] = mixed("trunc i32 {a} to i8", "sext i8 %1 to i32")
ROWS["s_sext_i32_i16 s3, s0"] = mixed("trunc i32 {a} to i16", "sext i16 %1 to i32")
ROWS["s_pack_lh_b32_b16 s3, s0, s1"] = mixed("and i32 {a}, 65535", "and i32 {b}, -65536", "or i32 %1, %2")
for letter, shift in (("u", "lshr"), ("i", "ashr")):  # a width of 32 or more is all that is left; 32 - width may not be a shift's count then
    ROWS[f"s_bfe_{letter}32 s3, s0, s1"] = mixed(
        *FIELD, f"{shift} i32 {{a}}, %1", "call i32 @llvm.umin.i32(i32 %3, i32 31)", "sub i32 32, %5", "and i32 %6, 31", "shl i32 %4, %7",
        f"{shift} i32 %8, %7", "icmp ugt i32 %3, 31", "select i1 %10, i32 %4, i32 %9", "icmp eq i32 %3, 0", "select i1 %12, i32 0, i32 %11")
for relation in ("lt", "le", "gt", "ge"):
    for letter, sign in (("u", "u"), ("i", "s")):
        ROWS[f"v_cmpx_{relation}_{letter}32 s[20:21], v0, v1"] = mixed(f"icmp {sign}{relation} i32 {{a}}, {{b}}", "zext i1 %1 to i32")
for kind, sign in (("u", "u"), ("i", "s")):
    for way in ("max", "min"):
        name = f"llvm.{sign}{way}.i32"
        other = f"llvm.{sign}{'min' if way == 'max' else 'max'}.i32"
        ROWS[f"v_{way}3_{kind}32 v3, v0, v1, v2"] = mixed(f"call i32 @{name}(i32 {{a}}, i32 {{b}})", f"call i32 @{name}(i32 %1, i32 {{c}})")
        ROWS[f"v_{way}{'min' if way == 'max' else 'max'}_{kind}32 v3, v0, v1, v2"] = mixed(
            f"call i32 @{name}(i32 {{a}}, i32 {{b}})", f"call i32 @{other}(i32 %1, i32 {{c}})")
for kind in ("u", "i"):
    for relation, of in {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}.items():
        ROWS[f"v_cmp_{relation}_{kind}32 s[20:21], v0, v1"] = mixed(f"icmp {'s' if kind == 'i' else 'u'}{of} i32 {{a}}, {{b}}", "zext i1 %1 to i32")
for relation, of in {"lt": "olt", "eq": "oeq", "le": "ole", "gt": "ogt", "lg": "one", "ge": "oge", "o": "ord", "u": "uno", "nge": "ult", "nlg": "ueq", "ngt": "ule",
                     "nle": "ugt", "neq": "une", "nlt": "uge"}.items():
    ROWS[f"v_cmp_{relation}_f32 s[20:21], v0, v1"] = mixed(f"fcmp {of} {F['a']}, {F['b'].split(' ', 1)[1]}", "zext i1 %1 to i32")
    ROWS[f"v_cmp_{relation}_f16 s[20:21], v0, v1"] = mixed(f"fcmp {of} {H['a']}, {H['b'].split(' ', 1)[1]}", "zext i1 %1 to i32")
for kind in ("f32", "f16"):
    ROWS[f"v_cmp_class_{kind} s[20:21], v0, v1"] = mixed(
        f"call i1 @llvm.amdgcn.class.{kind}({(F if kind == 'f32' else H)['a']}, i32 {{b}})", "zext i1 %1 to i32")


def signals(bits):
    """A signalling NaN, of which LLVM's own operations say nothing."""
    return 0x7f800000 < bits & 0x7fffffff < 0x7fc00000


def cases(text):
    sources = len(re.findall(r"\b[vs][012]\b", text))
    chance = random.Random(text)
    found = [[value] for value in EDGES] if sources == 1 else [chance.choices(EDGES, k=sources) for _ in range(CASES)]
    found += [[chance.getrandbits(32) for _ in range(sources)] for _ in range(CASES // 3)]
    name = text.split()[0]
    if name in NO_SIGNAL | NO_NAN:
        most = 0x7f800000 if name in NO_NAN else 0x7fffffff
        found = [values for values in found if not any(signals(value) or value & 0x7fffffff > most for value in values)]
    return [values + [0] * (3 - sources) for values in found]


def module(rows):
    """One function for each row, which stores each case's result; and what it calls."""
    text, declared = ["target triple = \"amdgcn-amd-amdhsa\"", "@to = external global i32"], {}
    for number, (name, lines) in enumerate(rows.items()):
        text.append(f"define void @row{number}() {{")
        for case, (a, b, c) in enumerate(cases(name)):
            for line in lines + ["store volatile i32 %x, ptr @to"]:
                line = line.format(a=a, b=b, c=c, al=a & 0xffff, bl=b & 0xffff, cl=c & 0xffff)
                text.append("  " + re.sub(r"%(s\d+|x|f)\b", rf"%\g<1>_{case}", line))
        text.append("  ret void\n}")
        for result, callee, arguments in re.findall(r"call (\w+) @(\S+?)\((.*)\)$", "\n".join(lines), re.M):
            declared[callee] = f"declare {result} @{callee}({', '.join(re.findall(r'(?:^|, )(i32|i16|i1|float|half) ', arguments))})"
    return "\n".join(text + list(declared.values())) + "\n"


def fold(opt, rows):
    """What OPT leaves to store, row by row."""
    command = [opt, "-mcpu=gfx942", "-passes=instcombine", "-S", "-o", "-", "-"]
    done = subprocess.run(command, input=module(rows), stdout=subprocess.PIPE, text=True, check=True)
    functions = re.findall(r"^define void @row(\d+)\(\).*?\n}", done.stdout, re.M | re.S)
    bodies = re.split(r"^define void @row\d+\(\)", done.stdout, flags=re.M)[1:]
    found = {int(number): re.findall(r"store volatile i32 (\S+), ptr @to", body) for number, body in zip(functions, bodies)}
    return [found[number] for number in range(len(rows))]


def main():
    test, opt = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "opt-19"
    if not shutil.which(opt):
        print(f"missing: {opt}")
        return 77
    compared = 0
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for (name, _), results in zip(ROWS.items(), fold(opt, ROWS)):
            values = cases(name)
            if len(values) != len(results) or any(not re.fullmatch(r"-?\d+", result) for result in results):
                wrong = next((result for result in results if not re.fullmatch(r"-?\d+", result)), "another number of results")
                print(f"{name}: not folded: {wrong}")
                return 1
            file.write(f"= {name}\n")
            for case, result in zip(values, results):
                file.write(" ".join(f"{number:x}" for number in [*case, int(result) & 0xffffffff]) + "\n")
                compared += 1
        file.flush()
        print(f"{len(ROWS)} instructions, {compared} cases")
        return subprocess.run([test, file.name], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
