"""Codes are as small as they claim, and lose only what feedback returns."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.codecs.codec import Exact, ScaledSign, send

rows = st.integers(1, 4)
columns = st.integers(1, 40)


def numbers(m, d, seed=0, dtype=torch.float64):
    return torch.randn(m, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@given(rows, columns, st.integers(0, 99))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_scaled_sign_equals_its_formula(m, d, seed):
    p = numbers(m, d, seed)
    decoded = ScaledSign().decode(ScaledSign().encode(p, [d]), [d]).numpy()
    expected = np.abs(p.numpy()).sum(axis=1, keepdims=True) / d * np.where(p.numpy() >= 0, 1, -1)
    np.testing.assert_allclose(decoded, expected, rtol=1e-13)


@given(rows, columns)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_code_is_one_bit_per_number_and_one_scale(m, d):
    bits, scale = ScaledSign().encode(numbers(m, d, dtype=torch.float32), [d])
    assert bits.dtype == torch.uint8
    assert bits.shape == (m, (d + 7) // 8)
    assert scale.nbytes == 4 * m
    sent = send(ScaledSign(), numbers(m, d, dtype=torch.float32), None, [d])
    assert sent.bytes_each == (d + 7) // 8 + 4


def test_zero_is_sent_as_plus_one():
    p = torch.tensor([[0.0, -0.0, -2.0, 2.0]])
    assert ScaledSign().decode(ScaledSign().encode(p, [4]), [4]).tolist() == [[1.0, 1.0, -1.0, 1.0]]


def test_one_scale_per_tensor_is_that_tensors_own():
    p, sizes = numbers(3, 10), [7, 3]
    codec = ScaledSign(per_tensor=True)
    _, scale = codec.encode(p, sizes)
    assert scale.shape == (3, 2)
    decoded = codec.decode(codec.encode(p, sizes), sizes)
    for part, meant in zip(decoded.split(sizes, dim=1), p.split(sizes, dim=1), strict=True):
        whole = ScaledSign()
        alone = whole.decode(whole.encode(meant.contiguous(), [meant.shape[1]]), [meant.shape[1]])
        torch.testing.assert_close(part, alone)


def test_feedback_keeps_exactly_what_was_lost():
    g, memory = numbers(2, 9), numbers(2, 9, seed=1)
    before = memory.clone()
    delta = send(ScaledSign(), g, memory, [9]).arrives_MD
    torch.testing.assert_close(delta + memory, g + before, rtol=1e-14, atol=1e-14)


def test_without_feedback_nothing_is_remembered():
    memory = torch.zeros(2, 9, dtype=torch.float64)
    delta = send(ScaledSign(feedback=False), numbers(2, 9), memory, [9]).arrives_MD
    assert float(memory.abs().sum()) == 0.0
    torch.testing.assert_close(delta.abs(), numbers(2, 9).abs().mean(dim=1, keepdim=True).expand(2, 9))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_visible(bad):
    p = torch.tensor([[1.0, bad]])
    assert not ScaledSign().decode(ScaledSign().encode(p, [2]), [2]).isfinite().any()


def test_exact_sends_every_byte():
    g = numbers(3, 5)
    sent = send(Exact(), g, None, [5])
    assert torch.equal(sent.arrives_MD, g)
    assert sent.bytes_each == 40
