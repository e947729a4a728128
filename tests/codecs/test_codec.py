"""Codes are as small as they claim, and lose only what feedback returns."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgrad.codecs import Exact, Quantised, RandomK, ScaledSign, TopK
from crossgrad.codecs.codec import send
from crossgrad.codecs.dither import digest
from crossgrad.codecs.levels import NOISE_STEPS, PIECE_NUMBERS, scale_of
from crossgrad.codecs.packing import pack_bits, packed_bytes, unpack
from crossgrad.codecs.subsets import SAMPLE_EVERY, largest, places_of, subset

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


def test_zeros_stay_zero_where_asked_and_cost_a_second_bit():
    p = torch.tensor([[0.0, 2.0, -4.0, -0.0, 3.0, 0.0, 0.0, 0.0, -9.0]])
    codec = ScaledSign(per_tensor=True, keep_zeros=True)
    sent = send(codec, p, None, [4, 5])
    assert sent.arrives_MD.tolist() == [[0.0, 1.5, -1.5, 0.0, pytest.approx(2.4), 0.0, 0.0, 0.0, pytest.approx(-2.4)]]
    assert sent.bytes_each == 2 * 2 + 2 * 4  # nine numbers in two times two bytes, two scales


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


@pytest.mark.parametrize("bits", range(1, 9))
@given(st.integers(1, 4), st.integers(1, 300), st.integers(0, 99))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_levels_are_packed_and_unpacked_without_loss(bits, m, d, seed):
    levels = np.random.default_rng(seed).integers(0, 2**bits, (m, d), dtype=np.uint8)
    packed = pack_bits(levels, bits)
    assert packed.shape == (m, packed_bytes(bits, d)) == (m, bits * ((d + 7) // 8) if bits < 8 else d)
    np.testing.assert_array_equal(unpack(packed, bits, d), levels)
    np.testing.assert_array_equal(packed[-1:], pack_bits(levels[-1:], bits))  # however many are packed at once


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_uniform_levels_are_at_most_a_step_away_and_right_on_average(bits):
    p = numbers(1, 60)
    step = float(p.max() - p.min()) / (2**bits - 1)
    arrived = [Quantised(bits, seed).decode(Quantised(bits, seed).encode(p, [60]), [60]) for seed in range(400)]
    assert max(float((a - p).abs().max()) for a in arrived) <= step * (1 + 1e-12)
    mean = torch.stack(arrived).mean(dim=0)
    assert float((mean - p).abs().max()) < 5 * step / 2 / 400**0.5  # five standard deviations of a rounded mean


def test_a_message_is_rounded_alike_wherever_it_is_sent():
    p = numbers(5, 33, dtype=torch.float32)
    for codec in (Quantised(3), RandomK(0.3), TopK(0.3)):
        together = codec.decode(codec.encode(p, [33]), [33])
        for row, each in zip(together, p, strict=True):
            assert torch.equal(codec.decode(codec.encode(each[None], [33]), [33])[0], row)


def test_equal_numbers_are_sent_exactly():
    p = torch.full((2, 9), 0.7)
    assert torch.equal(Quantised(2).decode(Quantised(2).encode(p, [9]), [9]), p)


@given(rows, columns, st.floats(0.01, 1.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_sparse_codes_send_their_share_and_nothing_else(m, d, share):
    p, k = numbers(m, d, dtype=torch.float32), max(1, math.ceil(share * d))
    for codec, places in ((TopK(share), min(4 * k, (d + 7) // 8) if 32 * k > d else 4 * k), (RandomK(share), 4)):
        sent = send(codec, p, None, [d])
        assert sent.bytes_each == 4 * k + places
        assert ((sent.arrives_MD == 0) | (sent.arrives_MD == p)).all()
        assert (sent.arrives_MD != 0).sum(dim=1).tolist() == [k] * m
    kept = TopK(share).decode(TopK(share).encode(p, [d]), [d]).abs()
    for row, all_of_it in zip(kept, p.abs(), strict=True):
        assert float(row[row > 0].min()) >= float(all_of_it[row == 0].max()) if k < d else True


@pytest.mark.parametrize("codec", [Quantised(4), TopK(0.9), ScaledSign()])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_codec_hides_what_is_not_finite(codec, bad):
    p = torch.tensor([[1.0, bad, 2.0, -1.0]])
    parts = codec.encode(p, [4])
    assert not all(part.isfinite().all() for part in parts if part.is_floating_point())


@pytest.mark.parametrize(
    ("make", "wrong"), [(Quantised, 0), (Quantised, 9), (Quantised, 2.5), (TopK, 0.0), (RandomK, 1.5)]
)
def test_settings_of_codecs_are_checked(make, wrong):
    with pytest.raises(ValueError, match=f"found {wrong}"):
        make(wrong)


def test_pieces_of_a_long_message_have_bounds_in_common_and_noise_of_their_own():
    piece = numbers(1, PIECE_NUMBERS, dtype=torch.float32)
    p = torch.cat([piece, 2 * piece, piece, piece[:, :77]], dim=1)
    q = Quantised(4).decode(Quantised(4).encode(p, [p.shape[1]]), [p.shape[1]])
    step = (p.max() - p.min()) / 15
    assert ((q - p).abs() <= 1.001 * step).all()
    assert 0.2 < (q[:, :PIECE_NUMBERS] != q[:, 2 * PIECE_NUMBERS : 3 * PIECE_NUMBERS]).float().mean() < 0.8
    assert (q - p).mean().abs() < 4 * step / (2 * p.shape[1] ** 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", range(1, 9))
def test_the_largest_number_never_passes_the_highest_level(bits, dtype):
    """Whatever the bounds, and with the largest noise there is: 256 would become 0."""
    generator = np.random.default_rng(bits)
    for low, width in generator.uniform(-1, 1, (500, 2)) * 10.0 ** generator.integers(-20, 20, (500, 1)):
        ends = np.sort(np.array([low, low + width], dtype))
        scale = scale_of(ends[0], ends[1], 2**bits - 1)
        highest = (ends[1] - ends[0]) * scale + dtype(1 - 1 / NOISE_STEPS)
        assert highest < 2**bits
        assert highest > 2**bits - 1 - 1e-4 or ends[0] == ends[1]


@pytest.mark.parametrize("share", [0.0, 0.001, 0.09, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("count", [1, 7, PIECE_NUMBERS, 3 * PIECE_NUMBERS + 5])
def test_the_places_of_a_mask_are_those_that_numpy_finds(share, count):
    mask = np.random.default_rng(0).random(count) < share
    np.testing.assert_array_equal(places_of(mask), np.flatnonzero(mask))


def test_rounding_errors_of_one_message_are_not_alike():
    p = torch.full((1, 40000), 0.3, dtype=torch.float64)
    p[0, :2] = torch.tensor([0.0, 1.0])
    ones = Quantised(1).decode(Quantised(1).encode(p, [40000]), [40000])[0, 2:]
    assert abs(float(ones.mean()) - 0.3) < 5 * (0.21 / 40000) ** 0.5
    neighbours = float(((ones[1:] - 0.3) * (ones[:-1] - 0.3)).mean())
    assert abs(neighbours) < 5 * 0.21 / 40000**0.5


@pytest.mark.parametrize("place", [0, 5, 8])
def test_any_changed_number_changes_the_seed_of_the_rounding(place):
    row = numbers(1, 9, dtype=torch.float32).numpy()[0]
    changed = row.copy()
    changed[place] = np.nextafter(changed[place], np.float32(9))
    assert digest(row) != digest(changed)


@given(st.integers(1, 60), st.floats(0.01, 1.0), st.integers(0, 9))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_a_random_subset_has_as_many_different_places_as_were_asked_for(count, share, seed):
    k = max(1, round(share * count))
    places = subset(count, k, np.random.SFC64(seed))
    assert len(set(places.tolist())) == k
    assert 0 <= places.min() <= places.max() < count


@pytest.mark.parametrize("k", [2, 5])
def test_all_subsets_are_equally_likely(k):
    bits = np.random.SFC64(0)
    found = {}
    for _ in range(4000):
        places = tuple(subset(6, k, bits).tolist())
        found[places] = found.get(places, 0) + 1
    expected = 4000 / math.comb(6, k)
    assert len(found) == math.comb(6, k)
    assert sum((n - expected) ** 2 / expected for n in found.values()) < 50  # chi squared with 14 and 5 degrees


@pytest.mark.parametrize("count", [1, 50, 3000])
def test_the_largest_numbers_are_found_among_many_equal_ones(count):
    row = np.random.default_rng(count).integers(-3, 4, count).astype(np.float32)
    for k in {1, count // 3 or 1, count}:
        kept = set(largest(row, k).tolist())
        assert kept == set(np.argsort(-np.abs(row), kind="stable")[:k].tolist())


@pytest.mark.parametrize("sampled", [0.0, 9.0, np.nan])
def test_the_largest_numbers_are_found_where_a_sample_is_not_like_the_rest(sampled):
    row = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    row[::SAMPLE_EVERY] = sampled
    size = np.where(np.isnan(row), np.inf, np.abs(row))  # what is not a number counts as the largest
    for k in (3, 30, 300):
        assert largest(row, k).tolist() == sorted(np.argsort(-size, kind="stable")[:k].tolist())


@pytest.mark.parametrize("codec", [Quantised(4), TopK(0.5), RandomK(0.5), ScaledSign()], ids=repr)
def test_bfloat16_is_encoded_as_the_same_numbers_in_float32_and_takes_half_the_bytes(codec):
    p = numbers(2, 50).bfloat16()
    wire, exact = codec.encode(p, [50]), codec.encode(p.float(), [50])
    for half, whole in zip(wire, exact, strict=True):
        if whole.is_floating_point():
            assert half.dtype == torch.bfloat16
            torch.testing.assert_close(half.float(), whole, rtol=2**-8, atol=0)
        else:
            assert torch.equal(half, whole)
    arrives = codec.decode(wire, [50])
    assert arrives.dtype == torch.bfloat16
    torch.testing.assert_close(arrives.float(), codec.decode(exact, [50]), rtol=2**-6, atol=2**-6)
