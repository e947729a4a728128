"""Intruders on a site's port while it trains: none gets in, and training is hardly slowed.

An attack comes at a rate of its own, whatever the site does meanwhile. What it costs is therefore measured as the
processor time that it takes of the site's process in a second: short phases of peace and of attack in turn, each
compared with the one before it. A site that has one core to itself is slowed by that much; the machine may have other
work.

Sites s0 and s1 train. The attacker has no key of theirs; for what only a member can try, it has that of s2, which is in
the file and trains with nobody.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sites import Forked, federation, log_of

from crossgrad.federation import authority, door, frames
from crossgrad.federation.certificates import subject, usage
from crossgrad.federation.greeting import Greeting
from crossgrad.federation.grpc_options import SERVICE, grpc, of_client
from crossgrad.federation.identity import Identity
from crossgrad.federation.journal import JOURNAL
from crossgrad.federation.messages import Data
from crossgrad.federation.start import data_of_experiment, start
from crossgrad.federation.training import with_model

PAUSE = 0.02  # seconds between two garbage connections
LORISES = 100  # connections that stay in the middle of a handshake
DAY = datetime.timedelta(days=1)
PEM = serialization.Encoding.PEM


def pem_of(key):
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def forged(folder, name, begins, ends, own_signature=False):
    """A key, and a certificate for a name with these dates; the authority's key is used for the dates alone."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    signer = key if own_signature else serialization.load_pem_private_key(
        (folder / "authority" / "authority.key").read_bytes(), None
    )  # fmt: skip
    issuer = subject(name) if own_signature else subject("proof authority")
    made = (
        x509.CertificateBuilder().subject_name(subject(name)).issuer_name(issuer).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now + begins).not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(usage(), critical=False).sign(signer, hashes.SHA256())
    )  # fmt: skip
    return pem_of(key), made.public_bytes(PEM)


class Attacker:
    """Tries every kind of intrusion once."""

    def __init__(self, rehearsal, folder):
        self.folder, plain = rehearsal.folder, rehearsal.federation
        self.federation = with_model(plain, start(plain, 2, data_of_experiment(plain)[2]))
        self.address = self.federation.sites[0].listen
        self.root = (self.folder / "authority" / "authority.crt").read_bytes()
        self.member = Identity.load(self.folder / "sites" / "s2", "s2")
        member = (self.member.key_pem, self.member.certificate_pem)
        authority.make_authority(folder / "other", "other")
        other = authority.sign_request(folder / "other", authority.make_request(folder / "s1", "s1"), "s1")
        stranger = authority.make_request(folder / "x", "stranger")
        stranger = authority.sign_request(self.folder / "authority", stranger, "stranger")
        hello = {"protocol": 1, "crossgrad": "0.0.1"}
        huge = frames.control(Data(1, 0, 0, 1, 1), 1 << 40)
        self.kinds = {
            "no certificate": lambda: self.say(None, [b"x"]),
            "another authority": lambda: self.say(((folder / "s1" / "site.key").read_bytes(), other), [b"x"]),
            "expired": lambda: self.say(forged(self.folder, "s1", -2 * DAY, -DAY), [b"x"]),
            "not yet valid": lambda: self.say(forged(self.folder, "s1", DAY, 2 * DAY), [b"x"]),
            "self-signed": lambda: self.say(forged(self.folder, "s1", -DAY, DAY, own_signature=True), [b"x"]),
            "not in the file": lambda: self.say(((folder / "x" / "site.key").read_bytes(), stranger), [b"x"]),
            "not a greeting": lambda: self.say(member, [b"\xff" * 100]),
            "another version": lambda: self.say(member, [frames.hello(hello)]),
            "another experiment": lambda: self.say(member, [self.hello(federation="0" * 64)]),
            "another name": lambda: self.say(member, [self.hello(site="s1")]),
            "greeting played back": lambda: self.say(member, [self.hello(), frames.hello(self.proof)]),
            "message beyond all limits": lambda: self.greet([huge]),
            "piece without a message": lambda: self.greet([bytes([frames.PIECE]) + b"1234"]),
        }
        self.proof = {"certificate": self.member.certificate_pem.decode(), "signature": "00" * 70}

    def hello(self, **changes):
        opened = frames.read_hello(Greeting(self.federation, self.member, "s0").open())
        return frames.hello(opened | changes)

    def say(self, pair, sent):
        """Dial with this key and certificate and say these frames; how it was refused."""
        credentials = grpc.ssl_channel_credentials(self.root, *(pair or (None, None)))
        with grpc.secure_channel(self.address, credentials, options=of_client(2, "s0")) as channel:
            try:
                list(channel.stream_stream(f"/{SERVICE}/open")(iter(sent), timeout=8))
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()[:150]}"
        return "closed"

    def greet(self, after):
        """Greet as s2, which is a member, and send bad frames then."""
        own, answered = Greeting(self.federation, self.member, "s0"), threading.Event()
        said = []

        def outgoing():
            yield own.open()
            if answered.wait(8):
                yield own.close(frames.read_hello(said[0]))[0]
                yield from after
                time.sleep(0.3)

        pair = (self.member.key_pem, self.member.certificate_pem)
        with grpc.secure_channel(
            self.address, grpc.ssl_channel_credentials(self.root, *pair), options=of_client(2, "s0")
        ) as channel:
            try:
                for frame in channel.stream_stream(f"/{SERVICE}/open")(outgoing(), timeout=10):
                    said.append(frame)
                    answered.set()
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()[:150]}"
        return "closed"


def attack(rehearsal, on, tried):
    """All kinds over and over, garbage and half handshakes, while `on` is set."""
    os.nice(5)
    attacker = Attacker(rehearsal, Path(tempfile.mkdtemp(prefix="attacker-")))
    host, port = attacker.address.rsplit(":", 1)
    threading.Thread(target=_garbage, args=((host, int(port)), on, tried), daemon=True).start()
    threading.Thread(target=_loris, args=((host, int(port)), on, tried), daemon=True).start()
    while True:
        for kind, intrude in attacker.kinds.items():
            on.wait()
            tried[kind] = tried.get(kind, 0) + 1
            tried[f"{kind}: answer"] = intrude()
            time.sleep(0.1)


def _garbage(address, on, tried):
    while True:
        on.wait()
        try:
            with socket.create_connection(address, timeout=2) as each:
                each.sendall(os.urandom(2000))
                tried["garbage"] = tried.get("garbage", 0) + 1
        except OSError:
            pass
        time.sleep(PAUSE)


def _loris(address, on, tried):
    """Connections that send the first bytes of a TLS greeting, and then a byte now and then."""
    open_ones = []
    while True:
        on.wait()
        try:
            while len(open_ones) < LORISES:
                open_ones.append(socket.create_connection(address, timeout=2))
                open_ones[-1].sendall(b"\x16\x03\x01\x02\x00\x01")
                tried["slow-loris"] = tried.get("slow-loris", 0) + 1
        except OSError:
            pass
        for each in list(open_ones):
            try:
                each.sendall(b"\x00")
            except OSError:
                open_ones.remove(each)
        time.sleep(1)


def steps(rehearsal):
    path = rehearsal.run_folder("s0") / JOURNAL
    return path.read_bytes().count(b'"began"') if path.exists() else 0


def cpu_seconds(pid):
    """Processor time of a process so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_of_attack(peace, attacked):
    """Processor time per second of an attacked phase beyond what its steps cost in peace."""
    training = attacked["steps"] * peace["cpu, s"] / max(1, peace["steps"])
    return (attacked["cpu, s"] - training) / attacked["s"]


def per_second(phases, key):
    return round(sum(phase[key] for phase in phases) / sum(phase["s"] for phase in phases), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of attack in all")
    parser.add_argument("--phases", type=int, default=60, help="of attack, each after an equally long one of peace")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    door.SHUT_OUT_SECONDS = 0.0  # the sites are forks: what only a member can try is to be tried again and again
    made = federation(3, graph="ring", algorithm="cga", model="cnn", steps=10**6, gather=5, lost_after=5, batch_size=64)
    rehearsal = Forked.prepare(made, Path(tempfile.mkdtemp(prefix="federation-")))
    with multiprocessing.get_context("spawn").Manager() as manager:
        on, tried = manager.Event(), manager.dict()
        for name in ("s0", "s1"):
            rehearsal.start(name)
        attacker = multiprocessing.get_context("spawn").Process(
            target=attack, args=(rehearsal_for_attack(rehearsal), on, tried), daemon=True
        )
        attacker.start()
        while steps(rehearsal) < 5:
            time.sleep(1)
        phases, length = {"in peace": [], "attacked": []}, options.seconds / options.phases
        pid = rehearsal.processes["s0"].pid
        for number in range(2 * options.phases):
            what = ("in peace", "attacked")[number % 2]
            on.set() if what == "attacked" else on.clear()
            time.sleep(1)
            began, used, before = time.monotonic(), cpu_seconds(pid), steps(rehearsal)
            time.sleep(length)
            taken, cpu = steps(rehearsal) - before, cpu_seconds(pid) - used
            phases[what].append({"s": time.monotonic() - began, "steps": taken, "cpu, s": cpu})
        attacker.kill()
        found = dict(tried)
    alive = [name for name in ("s0", "s1") if rehearsal.processes[name].poll() is None]
    lost = sum("is lost" in line for line in log_of(rehearsal, "s0").splitlines() if "s1" in line)
    rehearsal.stop()
    share = statistics.median(map(share_of_attack, phases["in peace"], phases["attacked"]))
    answers = {kind.removesuffix(": answer"): text for kind, text in found.items() if kind.endswith(": answer")}
    result = {
        "seconds of attack": options.seconds,
        "kinds": len(answers),
        "tried": {kind: count for kind, count in found.items() if not kind.endswith(": answer")},
        "answers": answers,
        "sites alive": len(alive),
        "times that s1 was lost": lost,
        "share of a core, %": round(100 * share, 1),
        "slowed by, %": round(100 * share / (1 - share), 1),
        "steps per second": {what: per_second(each, "steps") for what, each in phases.items()},
        "processor time per second": {what: per_second(each, "cpu, s") for what, each in phases.items()},
        "phases": {
            what: [{key: round(value, 3) for key, value in phase.items()} for phase in each]
            for what, each in phases.items()
        },
    }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def rehearsal_for_attack(rehearsal):
    """What another process needs of it."""
    return Forked(rehearsal.federation, rehearsal.folder)


if __name__ == "__main__":
    main()
