#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The operator of PyTorch: values and gradients beside PyTorch's own in float64, torch.library.opcheck, torch.compile,
and what is refused. Without PyTorch this is skipped."""
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import types
import unittest

if not importlib.util.find_spec('torch'):
    print('there is no PyTorch: not tested')
    sys.exit(77)

sys.dont_write_bytecode = True
import torch
import clattn
import clattn.torch as operator

sdpa = torch.nn.functional.scaled_dot_product_attention


def tensors(count, *shape, dtype=torch.float32):
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(count)]


def arguments(q, k, v, causal='', bias=None, mask=None, statistics=2, sinks=None):
    """Those of clattn::forward."""
    return (q, k, v, bias, mask, None, sinks, None, None, None, None, 'bhnd', causal, None, [-1, -1], 0.0, 0.0, [0, 0],
            statistics)


class Operator(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        clattn.default_device()._bound.clear()  # (of which a device keeps so many: other tests must not count)

    def beside(self, inputs, limit, **options):
        """O and all gradients, against PyTorch's in float64."""
        exact = [x.detach().double().requires_grad_(x.requires_grad) for x in inputs]
        names = ('query', 'key', 'value', 'attn_mask')
        have = clattn.scaled_dot_product_attention(**dict(zip(names, inputs)), **options)
        want = sdpa(**dict(zip(names, exact)), **options)
        d_o = torch.randn_like(have)
        learned = [i for i, x in enumerate(inputs) if x.requires_grad]
        made = torch.autograd.grad(have, [inputs[i] for i in learned], d_o)
        known = torch.autograd.grad(want, [exact[i] for i in learned], d_o.double())
        for x, y in ((have, want), *zip(made, known)):
            self.assertEqual(x.shape, y.shape)
            self.assertLess(float((x.double() - y).abs().max()), limit)

    def test_gradients(self):
        self.beside(tensors(3, 2, 4, 20, 16), 1e-5, is_causal=True)
        bias = torch.randn(4, 20, 20, requires_grad=True)
        self.beside([*tensors(3, 2, 4, 20, 16), bias], 1e-5)
        one_row = torch.randn(1, 1, 1, 20, requires_grad=True)
        self.beside([*tensors(3, 2, 4, 20, 16), one_row], 1e-5, scale=0.3)
        q, (k, v) = tensors(1, 1, 4, 20, 16)[0], tensors(2, 1, 2, 20, 16)
        self.beside([q, k, v], 1e-5, is_causal=True, enable_gqa=True)
        self.beside(tensors(3, 1, 2, 20, 16, dtype=torch.bfloat16), 6e-2)

    def test_a_sum_whose_gradient_is_broadcast(self):
        q, k, v = tensors(3, 1, 20, 2, 16)
        made = torch.autograd.grad(clattn.flash_attn_func(q, k, v, causal=True).sum(), v)[0]
        exact = v.detach().double().requires_grad_()
        first = [x.detach().double().transpose(1, 2) for x in (q, k)]
        want = torch.autograd.grad(sdpa(*first, exact.transpose(1, 2), is_causal=True).sum(), exact)[0]
        self.assertLess(float((made - want).abs().max()), 1e-5)

    def test_the_gradient_of_lse(self):
        q, k, v = tensors(3, 1, 2, 20, 16)
        o, lse = clattn.scaled_dot_product_attention(q, k, v, return_lse=True)
        exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
        scores = exact[0] @ exact[1].transpose(-1, -2) / 4
        loss = (scores.softmax(-1) @ exact[2]).sin().sum() + scores.logsumexp(-1).cos().sum()
        made = torch.autograd.grad(o.sin().sum() + lse.cos().sum(), (q, k, v))
        for x, y in zip(made, torch.autograd.grad(loss, exact)):
            self.assertLess(float((x - y).abs().max()), 1e-5)

    def test_opcheck(self):
        q, k, v = tensors(3, 1, 2, 20, 16)
        mask = torch.rand(20, 20) < 0.7
        bias = torch.randn(1, 2, 20, 20, requires_grad=True)
        sinks = torch.randn(2, requires_grad=True)
        for given in (arguments(q, k, v, 'top-left'), arguments(q, k, v, bias=bias), arguments(q, k, v, mask=mask),
                      arguments(q, k, v, sinks=sinks), arguments(q.detach(), k.detach(), v.detach(), statistics=0)):
            torch.library.opcheck(operator.forward, given)

    def test_compiled(self):
        def step(q, k, v):
            return clattn.scaled_dot_product_attention(q * 2, k, v, is_causal=True, dropout_p=0.0).sin()

        q, k, v = tensors(3, 1, 2, 20, 16)
        compiled = torch.compile(step, fullgraph=True, backend='aot_eager')
        have, want = compiled(q, k, v), step(q, k, v)
        self.assertTrue(torch.equal(have, want))
        self.assertTrue(torch.equal(torch.autograd.grad(have.sum(), q)[0], torch.autograd.grad(want.sum(), q)[0]))

    def test_dropout_follows_the_generator(self):
        q, k, v = (x.detach() for x in tensors(3, 1, 2, 20, 16))

        def drawn(seed):
            torch.manual_seed(seed)
            return clattn.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

        self.assertTrue(torch.equal(drawn(3), drawn(3)))
        self.assertFalse(torch.equal(drawn(3), drawn(4)))

    def beside_arrays(self, q, k, v, options, **more):
        """O and gradients of two kinds of call, to the bit: the operator's, and those of arrays, which nothing keeps.
        Answers with how many calls the device keeps more."""
        names = ['q', 'k', 'v'] + ['bias'] * getattr(more.get('bias'), 'requires_grad', False)
        inputs = {**{'q': q, 'k': k, 'v': v}, **more}
        before = len(clattn.default_device()._bound)
        have, lse = operator.attention(q, k, v, return_lse=True, **options, **more)
        d_o, d_lse = torch.randn_like(have), torch.randn_like(lse)
        made = torch.autograd.grad((have, lse), [inputs[name] for name in names], (d_o, d_lse))
        kept = len(clattn.default_device()._bound) - before
        with torch.no_grad():
            o, m, l = clattn.attention(q, k, v, return_ml=True, **options, **more)
            want = clattn.attention_backward(d_o, q, k, v, o, m=m, l=l, d_lse=d_lse, need=names, **options, **more)
        self.assertTrue(torch.equal(have, o), options)
        for name, x in zip(names, made):
            self.assertTrue(torch.equal(x, getattr(want, name).reshape(x.shape)), (name, options))
        return kept

    def test_calls_that_are_kept(self):
        """Whatever a call depends on, it is not taken for one that was kept for something else."""
        def halves(h, n, d, dtype=torch.float32):
            """Q, K and V of one product."""
            parts = torch.randn(2, n, 3, h, d, dtype=dtype, requires_grad=True)
            return [x.transpose(1, 2) for x in parts.unbind(2)]

        def grouped():
            return [*tensors(1, 2, 4, 20, 16), *tensors(2, 2, 2, 20, 16)]

        def turned():
            return [x.transpose(2, 3) for x in tensors(3, 2, 4, 16, 20)]

        arrays = [lambda: tensors(3, 2, 4, 20, 16), lambda: tensors(3, 2, 4, 24, 16), lambda: tensors(3, 3, 4, 20, 16),
                  lambda: tensors(3, 2, 4, 20, 24), lambda: tensors(3, 2, 4, 20, 16, dtype=torch.bfloat16), grouped,
                  turned, lambda: halves(4, 20, 16)]
        kept = [self.beside_arrays(*make(), {}) for _ in range(2) for make in arrays]
        self.assertEqual(kept, [2] * 8 + [0] * 8)
        for options in ({'layout': 'bnhd'}, {'causal': 'top-left'}):
            kept = [self.beside_arrays(*tensors(3, 2, 4, 20, 16), options) for _ in range(2)]
            self.assertEqual(kept, [2, 0])
        first, second, third = (halves(4, 20, 16)[i] for i in range(3))
        self.assertEqual(self.beside_arrays(first, second, third, {}), 0)  # the same strides, but not of one product
        q = tensors(1, 2, 4, 20, 16)[0]
        self.assertEqual(self.beside_arrays(q, q.detach().requires_grad_(), q.detach().requires_grad_(), {}), 0)

    def test_calls_of_other_numbers_that_are_kept(self):
        numbers = {'window': (3, 2), 'softcap': 2.0, 'dropout_p': 0.25, 'dropout_seed': 5}
        flags = [{}, {'window': (2, 3)}, {'softcap': 3.0}, {'scale': 0.5}, {'dropout_p': 0.5}]
        kept = [self.beside_arrays(*tensors(3, 2, 4, 20, 16), {**numbers, **flag}) for _ in range(2) for flag in flags]
        self.assertEqual(kept, [2] * 5 + [0] * 5)
        for seed in (6, 2**62):
            self.assertEqual(self.beside_arrays(*tensors(3, 2, 4, 20, 16), {**numbers, 'dropout_seed': seed}), 0)

    def test_calls_with_masks_that_are_kept(self):
        q, k, v = tensors(3, 2, 4, 20, 16)
        kept = []
        for _ in range(2):
            for shape in ((1, 1, 20, 20), (2, 1, 1, 20), (2, 4, 20, 20)):
                mask, bias = torch.rand(shape) < 0.8, torch.randn(shape)
                kept.append(self.beside_arrays(q, k, v, {}, mask=mask, bias=bias))
            bias = torch.randn(2, 4, 20, 20, requires_grad=True)
            kept.append(self.beside_arrays(q, k, v, {}, mask=mask, bias=bias))
            lengths = torch.randint(5, 20, (2, ), dtype=torch.int32)
            kept.append(self.beside_arrays(q, k, v, {}, key_lengths=lengths))
        # The gradient by a bias makes an array, and lengths are looked at: neither is kept.
        self.assertEqual(kept, [2, 2, 2, 0, 0, 0, 0, 0, 0, 0])

    def test_the_dispatcher_where_it_is_needed(self):
        """Tensors that are not what they seem, and what looks on, meet the operator that PyTorch knows."""
        q, k, v = tensors(3, 1, 2, 20, 16)
        negated = torch.complex(torch.zeros_like(q), q).conj().imag
        self.assertTrue(negated.is_neg())
        have = torch.autograd.grad(clattn.scaled_dot_product_attention(negated, k, v).sum(), (q, k))
        for x, y in zip(have, torch.autograd.grad(clattn.scaled_dot_product_attention(-q, k, v).sum(), (q, k))):
            self.assertTrue(torch.equal(x, y))

        class Seen(torch.utils._python_dispatch.TorchDispatchMode):
            names = []

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.names.append(str(function))
                return function(*args, **(kwargs or {}))

        with Seen():
            o = clattn.scaled_dot_product_attention(q, k, v)
            torch.autograd.grad(o.sum(), q)
        self.assertLessEqual({'clattn.forward.default', 'clattn.backward.default'}, set(Seen.names))

        def of_three(q, k, v):
            return clattn.scaled_dot_product_attention(q, k, v)

        traced = torch.fx.experimental.proxy_tensor.make_fx(of_three)(q.detach(), k.detach(), v.detach())
        self.assertIn('clattn.forward', traced.code)
        with torch._subclasses.FakeTensorMode() as mode:
            fake = [mode.from_tensor(x) for x in (q, k, v)]
            self.assertEqual(clattn.scaled_dot_product_attention(*fake).shape, (1, 2, 20, 16))
        with self.assertRaisesRegex(RuntimeError, 'clattn.*autograd formula|autograd formula.*clattn'):
            made = torch.autograd.grad(clattn.scaled_dot_product_attention(q, k, v).sum(), q, create_graph=True)[0]
            made.sum().backward()

    def test_the_dispatcher_where_it_is_not(self):
        """Ordinary tensors do without: this fails where PyTorch has other names for what is_plain() asks."""
        q, k, v = tensors(3, 1, 2, 20, 16)
        plain = operator.dispatch.is_plain
        self.assertTrue(plain((q, torch.nn.Parameter(q), q.detach(), q.transpose(1, 2), None)))
        with torch.no_grad():
            self.assertTrue(plain((q, )))
        with torch.inference_mode():
            self.assertTrue(plain((q, torch.randn(3))))
            self.assertTrue(torch.equal(clattn.scaled_dot_product_attention(q, k, v),
                                        clattn.scaled_dot_product_attention(q.detach(), k, v)))
        self.assertFalse(plain((q, q.as_subclass(Elsewhere))))

    def test_threads_rest_in_long_calls(self):
        """Threads of loops have a loop to sleep in while attention is long, and the next loop has them; by
        CLATTN_OPENMP and for devices elsewhere they are left alone."""
        threads = torch.get_num_threads()
        torch.set_num_threads(3)
        self.addCleanup(torch.set_num_threads, threads)
        self.addCleanup(operator.openmp._loops.cache_clear)
        few, many = (torch.ones(1, 4, n, 16) for n in (8, 1024))
        size = operator.openmp._loops().size

        def together(x, choice, device):
            os.environ['CLATTN_OPENMP'] = choice
            self.addCleanup(os.environ.pop, 'CLATTN_OPENMP', None)
            operator.openmp._loops.cache_clear()
            with contextlib.suppress(KeyError), operator.openmp.resting(device, x, x, 'bhnd'):
                inside = size()
                raise KeyError  # it ends however the call ends
            self.assertEqual(size(), 1)
            self.assertEqual(torch.ones(2**20).mul_(2).sum(), 2**21)
            return inside

        here, gpu = (types.SimpleNamespace(shares_memory=shares) for shares in (True, False))
        found = [together(many, 'pause', here), together(few, 'pause', here), together(many, 'keep', here),
                 together(many, 'pause', gpu)]
        self.assertEqual(found, [3, 1, 1, 1])
        with self.assertRaisesRegex(ValueError, "CLATTN_OPENMP is 'never': 'pause' or 'keep'"):
            together(many, 'never', here)

    def test_threads_that_rest_take_no_time(self):
        """In a process whose loops' threads never cease to wait in a loop: CPU time of 0.3 s without work."""
        program = """if True:
            import time, types, torch
            from clattn import openmp
            torch.set_num_threads(2)
            x = torch.ones(1, 4, 1024, 16).mul_(1)
            torch.ones(2**20).mul_(2)
            with openmp.resting(types.SimpleNamespace(shares_memory=True), x, x, 'bhnd'):
                time.sleep(0.1)
                start = time.process_time()
                time.sleep(0.3)
                print(time.process_time() - start)
            """

        def used(choice):
            environment = {**os.environ, 'GOMP_SPINCOUNT': 'infinity', 'CLATTN_OPENMP': choice}
            return float(subprocess.check_output([sys.executable, '-c', program], env=environment))

        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest('OpenMP lets no thread wait in a loop where threads are more than processors')
        self.assertLess(used('pause'), 0.02)
        self.assertGreater(used('keep'), 0.04)

    def test_the_devices_threads_have_processors(self):
        """In a process of its own, since it happens once: by default each of PoCL's threads is on a processor of its
        own after long attention of a PyTorch with several threads, and only then."""
        program = """if True:
            import os, sys, clattn, torch
            before = set(os.listdir('/proc/self/task'))
            clattn.default_device()
            began = sorted(map(int, set(os.listdir('/proc/self/task')) - before))
            torch.set_num_threads(int(sys.argv[1]))
            x = torch.ones(1, 4, int(sys.argv[2]), 16)
            clattn.scaled_dot_product_attention(x, x, x)
            print([sorted(os.sched_getaffinity(thread)) for thread in began])
            """
        processors = sorted(os.sched_getaffinity(0))
        one_each = [[processor] for processor in processors]
        any_of_all = [processors for _ in processors]

        def run(threads, n, **more):
            leaves = ('POCL_AFFINITY', 'CLATTN_AFFINITY')
            environment = {name: x for name, x in os.environ.items() if name not in leaves}
            done = subprocess.run([sys.executable, '-c', program, str(threads), str(n)],
                                  env={**environment, **more},
                                  capture_output=True,
                                  text=True,
                                  check=False)
            return json.loads(done.stdout) if not done.returncode else done.stderr

        if not clattn.default_device().shares_memory or len(run(1, 8)) != len(processors):
            self.skipTest(f'{clattn.default_device().name} does not have a thread for each processor')
        self.assertEqual(run(2, 1024), one_each)
        self.assertEqual(run(2, 8), any_of_all)
        self.assertEqual(run(1, 1024), any_of_all)
        self.assertEqual(run(2, 1024, CLATTN_AFFINITY='keep'), any_of_all)
        self.assertEqual(run(2, 1024, POCL_AFFINITY='0'), any_of_all)
        if len(processors) > 1:
            few = run(2, 1024, POCL_MAX_PTHREAD_COUNT=str(len(processors) - 1))
            self.assertEqual(few, any_of_all[1:])
        self.assertIn("CLATTN_AFFINITY is 'off': 'place' or 'keep'", run(2, 1024, CLATTN_AFFINITY='off'))

    def test_refusals(self):
        q, k, v = tensors(3, 1, 2, 8, 16)
        with self.assertRaisesRegex(TypeError, 'query is torch.float64: .* no fp64'):
            clattn.scaled_dot_product_attention(q.double(), k, v)
        with self.assertRaisesRegex(ValueError, 'q requires a gradient'):
            clattn.attention(q, k, v)
        with self.assertRaisesRegex(TypeError, 'key is a ndarray'):
            clattn.scaled_dot_product_attention(q, k.detach().numpy(), v)
        for name, value in (('scale', 'a'), ('dropout_p', 'a'), ('return_lse', 2), ('is_causal', 7)):
            with self.assertRaisesRegex(ValueError, f'^{name} is '):
                clattn.scaled_dot_product_attention(q, k, v, **{name: value})
        for name, value in (('window', 3), ('dropout_seed', 0.5)):
            with self.assertRaisesRegex(ValueError, f'^{name} is '):
                operator.attention(q, k, v, dropout_p=0.5, **{name: value})
        with self.assertRaisesRegex(TypeError, 'CUDA'):
            operator._check([('q', Elsewhere())])


class Elsewhere(torch.Tensor):
    """A tensor that says it is on a GPU, where there is none."""
    device = torch.device('cuda', 0)


if __name__ == '__main__':
    unittest.main()
