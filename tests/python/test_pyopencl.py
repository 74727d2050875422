#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Python package on arrays of pyopencl: where they lie, in their queues' order, with events. Without pyopencl this
is skipped."""
import importlib.util
import sys
import unittest

if not importlib.util.find_spec('pyopencl'):
    print('there is no pyopencl: not tested')
    sys.exit(77)

sys.dont_write_bytecode = True
import numpy
import pyopencl
import pyopencl.array
import clattn
import reference

RANDOM = numpy.random.default_rng(7)
CONTEXT = pyopencl.create_some_context(interactive=False)
PROPERTIES = pyopencl.command_queue_properties


def numbers(*shape):
    return RANDOM.standard_normal(shape, dtype=numpy.float32)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.queue = pyopencl.CommandQueue(CONTEXT)

    def there(self, *arrays):
        return [pyopencl.array.to_device(self.queue, x) for x in arrays]

    def near(self, have, want):
        self.assertEqual(have.shape, want.shape)
        self.assertLess(float(abs(have.get() - want).max()), 3e-6)

    def test_forward_and_backward(self):
        q, k, v, d_o = (numbers(1, 20, 2, 16) for _ in range(4))
        there = self.there(q, k, v)
        o, m, l = clattn.attention(*there, layout='bnhd', causal=True, return_ml=True)
        want, _ = reference.each(*(x.swapaxes(1, 2) for x in (q, k, v)), causal=True)
        self.assertIsInstance(o, pyopencl.array.Array)
        self.assertEqual(len(o.events), 1)
        self.near(o, want.swapaxes(1, 2))
        made = clattn.attention_backward(*self.there(d_o), *there, o, m=m, l=l, layout='bnhd', causal=True)
        host = clattn.attention_backward(d_o, q, k, v, o.get(), m=m.get(), l=l.get(), layout='bnhd', causal=True)
        for x, y in zip(made[:3], host[:3]):
            self.near(x, y)

    def test_shared_virtual_memory(self):
        if not getattr(CONTEXT.devices[0], 'svm_capabilities', 0):
            self.skipTest('the device has no shared virtual memory')
        from pyopencl.tools import SVMAllocator
        allocator = SVMAllocator(CONTEXT, alignment=0, queue=self.queue)
        q, k, v = (numbers(1, 2, 20, 16) for _ in range(3))
        lengths = numpy.array([13], dtype=numpy.int32)
        want = clattn.attention(*self.there(q, k, v), key_lengths=lengths).get()
        there = [pyopencl.array.to_device(self.queue, x, allocator=allocator) for x in (q, k, v, lengths)]
        o = clattn.attention(*there[:3], key_lengths=there[3])
        self.assertTrue(hasattr(o.base_data, 'svm_ptr'))
        self.assertTrue(numpy.array_equal(o.get(), want))
        part = clattn.attention(there[0][:, 1:], *(x[:, 1:] for x in self.there(k, v)), key_lengths=lengths)
        self.assertTrue(numpy.array_equal(part.get(), want[:, 1:]))
        with self.assertRaisesRegex(clattn.ArgumentError, 'bias_slopes is in shared virtual memory'):
            clattn.attention(*there[:3], bias=self.there(q @ k.swapaxes(2, 3))[0], bias_slopes=there[0][0, 0, 0, :2])

    def test_slices_of_one_buffer_and_out(self):
        both = numbers(3, 1, 20, 2, 16)
        whole, out = self.there(both, numbers(1, 20, 2, 16))
        made = clattn.flash_attn_func(whole[0], whole[1], whole[2], causal=True, out=out)
        self.assertIs(made, out)
        want, _ = reference.each(*(x.swapaxes(1, 2) for x in both), causal=True)
        self.near(out, want.swapaxes(1, 2))

    def test_waits_for_events_out_of_order(self):
        queue = pyopencl.CommandQueue(CONTEXT, properties=PROPERTIES.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        q, k, v = (numbers(1, 2, 20, 16) for _ in range(3))
        there = self.there(q * 0, k, v)
        gate = pyopencl.UserEvent(CONTEXT)
        written = pyopencl.enqueue_copy(queue, there[0].base_data, q, wait_for=[gate], is_blocking=False)
        o = clattn.attention(*there, causal=True, queue=queue, wait_for=[written])
        self.assertNotEqual(o.events[0].command_execution_status, pyopencl.command_execution_status.COMPLETE)
        gate.set_status(pyopencl.command_execution_status.COMPLETE)
        self.near(o, reference.each(q, k, v, causal=True)[0])

    def test_the_first_command_has_an_event(self):
        queue = pyopencl.CommandQueue(CONTEXT, properties=PROPERTIES.PROFILING_ENABLE)
        q, k, v = (numbers(1, 2, 20, 16) for _ in range(3))
        first = []
        o = clattn.attention(*self.there(q, k, v), causal=True, queue=queue, splits=2, first_event=first)
        self.near(o, reference.each(q, k, v, causal=True)[0])
        self.assertEqual(len(first), 1)
        self.assertLessEqual(first[0].profile.end, o.events[0].profile.start)

    def test_a_cache_on_the_device(self):
        q, k, v = (numbers(2, 1, 2, 16) for _ in range(3))
        caches = [numbers(2, 24, 2, 16) for _ in range(2)]
        lengths = numpy.array([5, 20], numpy.int32)
        there = self.there(*caches)
        have = clattn.flash_attn_with_kvcache(*self.there(q),
                                              *there,
                                              *self.there(k, v),
                                              cache_seqlens=lengths,
                                              causal=True)
        want = clattn.flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=lengths, causal=True)
        self.near(have, want)
        for x, y in zip(there, caches):
            self.assertTrue((x.get() == y).all())

    def test_refusals(self):
        q, k, v = (numbers(1, 2, 20, 16) for _ in range(3))
        there = self.there(q, k, v)
        with self.assertRaisesRegex(ValueError, 'k is on the host'):
            clattn.attention(there[0], k, there[2])
        with self.assertRaisesRegex(ValueError, 'kv_chunk is 8'):
            clattn.attention(*there, kv_chunk=8)
        with self.assertRaisesRegex(TypeError, 'q is float64'):
            clattn.attention(*self.there(q.astype(float)), *there[1:])


if __name__ == '__main__':
    unittest.main()
