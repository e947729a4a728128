"""Two network namespaces of this machine with one cable between them, for sites that run in either (needs root).

Every namespace has an address of its own on its loopback interface, so that its sites reach one another while the cable
is cut.
"""

import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000
ADDRESSES = ("10.99.1.1", "10.99.1.2")
ENDS = ("10.99.0.1", "10.99.0.2")
RATE = "100mbit"


def command(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


class Namespaces:
    """Two namespaces; `with` removes them."""

    def __enter__(self):
        self.names = [f"crossgrad-{os.getpid()}-{side}" for side in (0, 1)]
        for name in self.names:
            command("ip", "netns", "add", name)
        first, second = self.names
        command("ip", "-n", first, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", second)
        for side, name in enumerate(self.names):
            command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "-n", name, "addr", "add", f"{ADDRESSES[side]}/32", "dev", "lo")
            command("ip", "-n", name, "addr", "add", f"{ENDS[side]}/30", "dev", "cable")
        self.mend()
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def cut(self):
        """Pull the cable."""
        command("ip", "-n", self.names[0], "link", "set", "cable", "down")

    def mend(self):
        """Plug it in."""
        for side, name in enumerate(self.names):
            command("ip", "-n", name, "link", "set", "cable", "up")
            command(
                *("ip", "-n", name, "route", "replace", f"{ADDRESSES[1 - side]}/32"),
                *("via", ENDS[1 - side], "src", ADDRESSES[side]),
            )

    def limit(self):
        """Let 100 Mbit/s through each way."""
        for name in self.names:
            shape = ("tbf", "rate", RATE, "burst", "256kb", "latency", "400ms")
            command("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "cable", "root", *shape)

    def address(self, side):
        """Where sites of a side listen."""
        return ADDRESSES[side]

    def enter(self, side):
        """Move this process, and what it starts, into one of them."""
        with open(f"/var/run/netns/{self.names[side]}") as handle:
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
