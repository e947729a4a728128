"""Messages say what they are, and are refused where they are not what was expected."""

import pytest
import torch

from crossgrad._network import wire
from crossgrad._network.messages import decode_one
from crossgrad._network.wire import Label, PeerError
from crossgrad.codecs import Quantised, RandomK, TopK
from crossgrad.codecs.codec import ScaledSign

LABEL = Label("code", step=7, agent=3, receiver=4)


def packed(parts, label=LABEL):
    message = torch.zeros(wire.message_bytes(parts), dtype=torch.uint8)
    wire.pack_message(message, label, parts)
    return message


@pytest.fixture
def parts():
    """Bits and scale of 13 numbers: lengths that are no multiples of eight."""
    return ScaledSign().encode(torch.linspace(-1, 1, 13)[None], [13])


def test_what_is_packed_is_unpacked(parts):
    message = packed(parts)
    wire.check_message(message, LABEL, parts, rank=1)
    for sent, received in zip(parts, wire.parts_of(message, parts), strict=True):
        assert torch.equal(sent, received)
        assert sent.dtype == received.dtype


def test_numbers_are_views_of_the_message(parts):
    message = packed(parts)
    wire.parts_of(message, parts)[1].fill_(5.0)
    assert wire.parts_of(message, parts)[1].item() == 5.0


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (LABEL._replace(kind="model"), f"kind {wire.kind_code('model')} instead of {wire.kind_code('code')}"),
        (LABEL._replace(step=6), "step 6 instead of 7"),
        (LABEL._replace(agent=2), "agent 2 instead of 3"),
        (LABEL._replace(receiver=0), "receiver 0 instead of 4"),
        (LABEL._replace(round=1), "round 1 instead of 0"),
    ],
)
def test_another_message_is_refused_with_its_sender(parts, other, said):
    with pytest.raises(PeerError, match=f"rank 1 was to send the code of agent 3 in step 7, .* {said}"):
        wire.check_message(packed(parts, other), LABEL, parts, rank=1)


def test_a_message_of_another_size_is_refused(parts):
    longer = ScaledSign().encode(torch.ones(1, 130), [130])
    message = torch.zeros(wire.message_bytes(parts), dtype=torch.uint8)
    message[:] = packed(longer)[: len(message)]
    with pytest.raises(PeerError, match="bytes 104 instead of 88"):
        wire.check_message(message, LABEL, parts, rank=1)


def test_a_message_that_is_cut_off_is_refused(parts):
    """The rest is still there from the step before."""
    message = packed(parts, LABEL._replace(step=6))
    message[:-16] = packed(parts)[:-16]
    with pytest.raises(PeerError, match="rank 1 sent only a part of the code of agent 3 in step 7"):
        wire.check_message(message, LABEL, parts, rank=1)


def test_nothing_is_no_message(parts):
    with pytest.raises(PeerError, match="format 0 instead of"):
        wire.check_message(torch.zeros(wire.message_bytes(parts), dtype=torch.uint8), LABEL, parts, rank=1)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_neither_sent_nor_believed(wrong):
    good, bad = [torch.zeros(5)], [torch.tensor([0.0, wrong, 1.0, 2.0, 3.0])]
    with pytest.raises(PeerError, match="the code of agent 3 in step 7 is not finite, so it is not sent"):
        packed(bad)
    message = packed(good)
    wire.parts_of(message, good)[0].copy_(bad[0])
    with pytest.raises(PeerError, match="rank 1 sent the code of agent 3 in step 7 with numbers that are not finite"):
        wire.check_message(message, LABEL, good, rank=1)


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -1.0])
def test_a_simulated_time_that_can_be_none_was_believed(time, parts):
    with pytest.raises(PeerError, match=f"rank 1 sent the code of agent 3 in step 7 with a simulated time of {time}"):
        wire.check_message(packed(parts, LABEL._replace(time=time)), LABEL, parts, rank=1)


def changed(part, value):
    part = part.clone()
    part.view(-1)[:] = torch.tensor(value, dtype=part.dtype)
    return part


@pytest.mark.parametrize(
    ("codec", "number", "value"),
    [
        (TopK(0.02), 1, 2**30),  # a place beyond the last
        (TopK(0.3), 1, 255),  # more places than values
        (RandomK(0.3), 1, -7),  # no seed
        (Quantised(4), 1, [-3e38, 3e38]),  # a range that overflows
    ],
)
def test_a_code_that_cannot_be_decoded_was_not_traced_to_its_sender(codec, number, value):
    """It was an error of numpy, or NaN in the receiver's model."""
    parts = list(codec.encode(torch.linspace(-1, 1, 100)[None], [100]))
    assert torch.equal(decode_one(codec, parts, [100], LABEL, rank=1), codec.decode(tuple(parts), [100]))
    parts[number] = changed(parts[number], value)
    with pytest.raises(PeerError, match=f"rank 1 sent the code of agent 3 in step 7, which {type(codec).__name__} can"):
        decode_one(codec, parts, [100], LABEL, rank=1)
