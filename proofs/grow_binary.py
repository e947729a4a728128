"""Images and archives grown from their grammar, that lie about sizes, overflow or climb out of their folder."""

import gzip
import io
import lzma
import tarfile
import zlib
from functools import cache
from random import Random
from typing import Any

import numpy as np
from grow_pickle import RECORDS, any_pickle, python_2_batch
from mutate import ODD_TEXT, WHOLE

Files = dict[str, bytes]

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
NASTY_NAMES = [
    "../x",
    "../../x",
    "/tmp/fuzz-outside",
    "a/../../x",
    "~/x",
    "C:\\x",
    "a\0b",
    "x" * 300,
    "\ud7ff",
    "",
    ".",
]


def idx(shape: tuple[int, ...], kind: int = 8, body: bytes | None = None) -> bytes:
    size = int(np.prod(shape)) if body is None else 0
    header = bytes([0, 0, kind, len(shape) % 256]) + b"".join((n % 2**32).to_bytes(4, "big") for n in shape)
    return header + (bytes(i % 10 for i in range(size)) if body is None else body)


def lying_idx(rng: Random) -> Files:
    """A header of any shape, over a body of any length, packed or not."""
    shape = tuple(rng.choice([1, 2, 3, 28, *WHOLE]) for _ in range(rng.choice([0, 1, 2, 3, 70, 255])))
    data = idx(shape, rng.choice([8, 9, 11, 12, 13, 14, 0, 255]), bytes(rng.choice([0, 1, 24, 784, 5000])))
    if rng.random() < 0.002:
        return {"images": idx_bomb(rng.choice([250, 500, 600, 1000]), rng.choice([8, 14]))}
    return {"images": packed(rng, data)}


@cache
def idx_bomb(megabytes: int, kind: int) -> bytes:
    """A small file that unpacks to just what its header says, and that is much."""
    count = (megabytes << 20) // (8 if kind == 14 else 1)
    return packed_zeros(gzip.compress, idx((count,), kind, b""), megabytes)


def packed_zeros(pack: Any, start: bytes, megabytes: int) -> bytes:
    """`start` and so many megabytes of zeros, packed without ever holding them."""
    packer = zlib.compressobj(1, wbits=31) if pack is gzip.compress else lzma.LZMACompressor(preset=0)
    piece = bytes(1 << 20)
    return packer.compress(start) + b"".join(packer.compress(piece) for _ in range(megabytes)) + packer.flush()


def packed(rng: Random, data: bytes) -> bytes:
    pack = rng.choice([bytes, bytes, gzip.compress, lzma.compress])
    return pack(data)


def mnist(rng: Random) -> Files:
    """The four files of MNIST, small; one of them may have another shape."""
    shapes = {"train-images-idx3": (3, 28, 28), "train-labels-idx1": (3,), "t10k-images-idx3": (2, 28, 28)}
    shapes["t10k-labels-idx1"] = (2,)
    if rng.random() < 0.9:
        changed = rng.choice(list(shapes))
        shapes[changed] = rng.choice([(), (0,), (3,), (2, 2), (1, 28, 28), (3, 28, 28, 1), (200,), (1, 27, 28)])
    return {f"{name}-ubyte{rng.choice(['', '.gz'])}": packed(rng, idx(shape)) for name, shape in shapes.items()}


def binary_batches() -> Files:
    row = bytes([3]) + bytes(range(256)) * 12
    return {f"{name}.bin": row * RECORDS for name in BATCHES}


def pickles() -> Files:
    return dict.fromkeys(BATCHES, python_2_batch())


def pickled_folder(rng: Random) -> Files:
    return pickles() | {rng.choice(BATCHES): any_pickle(rng)}


def tar(members: list[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for entry, data in members:
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def entry(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def cifar_tar(python: bool) -> bytes:
    files, folder = (pickles(), "cifar-10-batches-py") if python else (binary_batches(), "cifar-10-batches-bin")
    return tar([entry(f"{folder}/{name}", data) for name, data in files.items()])


def nasty_tar(rng: Random, names: list[str]) -> bytes:
    """An archive with names that climb, links, devices, members twice, and headers that lie about sizes."""
    members = [entry(name, bytes(rng.choice([0, 10, 600]))) for name in names]
    for _ in range(rng.choice([1, 2, 4])):
        info, data = entry(rng.choice([*names, *NASTY_NAMES, rng.choice(ODD_TEXT)]), rng.randbytes(rng.choice([0, 5])))
        info.type = rng.choice([tarfile.REGTYPE, *b"01234567LKxgSVDN"[:: rng.choice([1, 2])].decode()])
        info.type = info.type if isinstance(info.type, bytes) else info.type.encode()
        info.linkname = rng.choice([*NASTY_NAMES, *names])
        info.mode, info.mtime = rng.choice([0, 0o777, 0o4755]), rng.choice([0, 2**31])
        members.insert(rng.randrange(len(members) + 1), (info, data))
    try:
        whole = bytearray(tar(members, rng.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])))
    except (ValueError, UnicodeError):  # what cannot even be written, such as a name that is too long for ustar
        whole = bytearray(tar(members[:1]))
    if rng.random() < 0.4:  # a size that lies, under a checksum that is right
        at = rng.randrange(len(whole) // 512) * 512
        words = [
            b"77777777777\0",
            b"\x80" + bytes(3) + b"\xff" * 8,
            b"\xff" * 12,
            b"-0000000001\0",
            b"00000001750\0",
            bytes(12),
        ]
        whole[at + 124 : at + 136] = rng.choice(words)
        whole[at + 148 : at + 156] = b" " * 8
        whole[at + 148 : at + 156] = b"%06o\0 " % (sum(whole[at : at + 512]) % 8**6)
    return bytes(whole)


def chain(kind: bytes, length: int) -> bytes:
    """Headers without content, each of which may be about the next."""
    info = tarfile.TarInfo("a" if kind in b"LKx" else "other")
    info.type = kind
    return info.tobuf() * length + bytes(1024)


@cache
def tar_bomb(pack: Any, name: str, kind: bytes, megabytes: int) -> bytes:
    """An archive of a few bytes whose member, or what follows it, unpacks to very much."""
    info = tarfile.TarInfo(name)
    info.size, info.type = megabytes << 20, kind
    return packed_zeros(pack, info.tobuf(), megabytes + 1)


def small_archive(rng: Random) -> Files:
    """For readers of the members `a` and `b/c`."""
    if rng.random() < 0.002:
        pack, kind = rng.choice([gzip.compress, lzma.compress]), rng.choice([b"0", b"L", b"x", b"S"])
        return {"archive": tar_bomb(pack, rng.choice(["a", "z"]), kind, rng.choice([450, 700]))}
    if rng.random() < 0.02:
        return {"archive": packed(rng, chain(rng.choice([b"L", b"x", b"K", b"0", b"5"]), rng.choice([100, 2000])))}
    return {"archive": packed(rng, nasty_tar(rng, ["a", "b/c"]))}


def cifar_archive(rng: Random) -> Files:
    python = rng.random() < 0.5
    folder, names = ("cifar-10-batches-py", pickles()) if python else ("cifar-10-batches-bin", binary_batches())
    end = rng.choice(["", ".gz", ".xz"])
    if rng.random() < 0.6:
        names |= {rng.choice(list(names)): any_pickle(rng) if python else bytes(rng.choice([0, 6145, 6147]))}
        data = packed(rng, tar([entry(f"{folder}/{name}", content) for name, content in names.items()]))
    else:
        data = packed(rng, nasty_tar(rng, [f"{folder}/{name}" for name in names]))
    return {f"cifar-10-{'python' if python else 'binary'}.tar{end}": data}
