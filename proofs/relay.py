"""A relay for two sites of which neither can be reached: both dial it, and it joins their connections byte by byte.

This is what `ssh -N -R 7443:localhost:7443 relay.example.org` at the site that listens does.
"""

import socket
import threading
import time
from contextlib import suppress

from crossgrad.federation.rehearsal import free_ports


class Relay:
    """Threads in place of three machines: the relay with two ports, and the helper of the site that listens.

    Args:
        site: the port on which the site listens, on its own loopback interface only.
    """

    def __init__(self, site):
        self.site, (self.inner, self.outer) = site, free_ports(2)
        self.joined, self.first_bytes = 0, []
        self._helpers = socket.create_server(("127.0.0.1", self.inner))  # the helper dials this
        self._callers = socket.create_server(("127.0.0.1", self.outer))  # other sites dial this
        threading.Thread(target=self._join, daemon=True).start()
        threading.Thread(target=self._help, daemon=True).start()

    def _join(self):
        """The relay: it pairs the next caller with the helper's connection in reserve."""
        while True:
            caller, _ = self._callers.accept()
            helper, _ = self._helpers.accept()
            self.joined += 1
            _both_ways(caller, helper)

    def _help(self):
        """The site's helper: one connection to the relay in reserve, passed on to the site with its first byte."""
        while True:
            with suppress(OSError):
                reserve = socket.create_connection(("127.0.0.1", self.inner))
                first = reserve.recv(1 << 16)
                self.first_bytes.append(first[:2])
                site = socket.create_connection(("127.0.0.1", self.site))
                site.sendall(first)
                _both_ways(reserve, site)
                continue
            reserve.close()
            time.sleep(0.1)


def _both_ways(one, other):
    for source, sink in ((one, other), (other, one)):
        threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source, sink):
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
