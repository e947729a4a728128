"""A site's connections to its neighbours: one gRPC stream with mutual TLS for each, opened again whenever it ends."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from crossgrad.federation import greeting, queries
from crossgrad.federation.bounds import Budget
from crossgrad.federation.certificates import REVOKED
from crossgrad.federation.channels import caller, metadata, open_channel, why_not
from crossgrad.federation.door import Door
from crossgrad.federation.file import Federation
from crossgrad.federation.frames import FrameError
from crossgrad.federation.greeting import Greeting, LaterError, RefusedError, TurnedAwayError
from crossgrad.federation.grpc_options import HANDSHAKE_SECONDS, METHOD, SERVICE, grpc, limited, of_client, reason
from crossgrad.federation.identity import Identity
from crossgrad.federation.listener import Guarded, LinkListener, Notices
from crossgrad.federation.messages import Message
from crossgrad.federation.server import serve
from crossgrad.federation.signatures import IdentityError
from crossgrad.federation.stream import Stream
from crossgrad.federation.tls_refusals import TlsRefusals
from crossgrad.federation.versions import Signed

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0  # seconds between two attempts to connect, each of HANDSHAKE_SECONDS at most
SPARE_BYTES = 4096  # of a message beside its numbers
GOODBYE_SECONDS = 2.0


class Connections:
    """All connections of one site.

    Args:
        federation: What all sites have agreed on.
        identity: This site's key and certificates.
        listener: Who is told.
        max_payload_bytes: The largest message of numbers that is taken.
        signed: The federation's file with its signature, if it has one, for neighbours that have an earlier version.
    """

    def __init__(
        self,
        federation: Federation,
        identity: Identity,
        listener: LinkListener,
        max_payload_bytes: int,
        signed: Signed | None = None,
    ) -> None:
        self.federation, self.identity, self.listener, self.signed = federation, identity, listener, signed
        self.me = federation.number(identity.name)
        self.max_payload_bytes = max_payload_bytes
        self.lost_after = federation.timing.lost_after
        self.beat = min(1.0, self.lost_after / 6)
        self._streams: dict[int, Stream] = {}
        self._cancels: dict[int, Callable[[], Any]] = {}
        self._lock = threading.RLock()
        self._leaving, self._over = False, threading.Event()
        self._budgets = {peer: Budget() for peer in federation.neighbours(self.me)}
        self._door = Door(federation, self.me)
        self._looked = time.monotonic()
        self._server: Any = None
        self._threads: list[threading.Thread] = []
        self._notices = Notices(listener.say)
        self._refusals = TlsRefusals(listener.say, self._missing)

    def start(self) -> None:
        """Listen, where this site does, and dial those neighbours that are to be dialled."""
        if self.federation.sites[self.me].listen is not None:
            asked = queries.handlers(self.federation, self.identity, self.listener.where)
            methods = asked | {METHOD: grpc.stream_stream_rpc_method_handler(self._serve)}
            self._server = serve(self.federation, self.identity, methods, self._refusals)
        for peer in self.federation.neighbours(self.me):
            if self.federation.dials(self.me, peer):
                self._thread(self._dial, peer)
        self._thread(self._watch)

    def send(self, peer: int, message: Message, payload: bytes = b"") -> None:
        """Send on the present connection; if there is none, it is lost."""
        if (stream := self._streams.get(peer)) is not None:
            stream.send(message, payload)

    def stop(self, later: Signed | None = None) -> None:
        """Hand over a later version of the file, if this site leaves to use it; say goodbye to all, and end."""
        self._leaving = True
        streams = list(self._streams.values())
        for stream in streams:
            if later is not None:
                stream.hand_over(later)
            stream.say_goodbye()
        for stream in streams:
            stream.drained(GOODBYE_SECONDS)
        time.sleep(0.05 if streams else 0)  # the last frame leaves gRPC
        self._over.set()
        for peer in list(self._streams):
            self.drop(peer)
        if self._server is not None:
            self._server.stop(0.5).wait()
        for thread in self._threads:
            thread.join(GOODBYE_SECONDS)

    def drop(self, peer: int) -> None:
        """End the connection to a neighbour."""
        stream, cancel = self._streams.get(peer), self._cancels.get(peer)
        if stream is not None:
            self._detach(stream)
        if cancel is not None:
            cancel()

    def _serve(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """The listening end of a connection."""
        name, timer = "", limited(HANDSHAKE_SECONDS, context.cancel)
        try:
            name = caller(self.federation, self.identity, context)
            with self._door.greeting(name):
                yield from Greeting(self.federation, self.identity, name, self.signed).answers(requests)
            timer.cancel()
            peer = self._door.dialler(name)
        except (RefusedError, IdentityError) as refused:
            self._refused(name or context.peer().rpartition(":")[0], refused)
            if not isinstance(refused, TurnedAwayError):
                context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refused))
            return
        except grpc.RpcError:
            return
        stream = self._stream(peer)
        context.add_callback(stream.close)
        self._attach(stream, context.cancel)
        threading.Thread(target=self._receive, args=(stream, requests, context.cancel), daemon=True).start()
        yield from stream.outgoing()

    def _refused(self, who: str, refused: Exception) -> None:
        """Pass on a later version of the file that came instead of a greeting; write other refusals down."""
        if isinstance(refused, LaterError):
            self.listener.handed(self.federation.number(who), refused.signed)
        else:
            own = "" if isinstance(refused, TurnedAwayError) else f"refused {who}: "
            self._notices.add(who, f"{own}{refused}")

    def _dial(self, peer: int) -> None:
        """The dialling end: connect, again and again."""
        name, pause = self.federation.sites[peer].name, FIRST_PAUSE
        while not self._over.is_set():
            began = time.monotonic()
            self._over.wait(self._door.seconds_shut(peer))
            try:
                self._connect(peer, name)
            except RefusedError as refused:
                self._refused(name, refused)
            except grpc.RpcError as error:
                if not self._over.is_set():
                    self._notices.add(name, why_not(self.identity, error, name, self.federation.address(peer)))
            pause = FIRST_PAUSE if time.monotonic() - began > 5 else min(LONGEST_PAUSE, 1.5 * pause)
            self._over.wait(pause)

    def _connect(self, peer: int, name: str) -> None:
        options = of_client(self.lost_after, name)
        with open_channel(self.identity, self.federation.address(peer), options) as channel:
            own = Greeting(self.federation, self.identity, name, self.signed)
            stream, greeted, last = self._stream(peer), threading.Event(), list[bytes]()

            def outgoing() -> Iterator[bytes]:
                yield own.open()
                while not greeted.wait(0.5):
                    if stream.closed:
                        return
                yield from last
                yield from stream.outgoing()

            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")(outgoing(), metadata=metadata(self.identity))
            timer = limited(2 * HANDSHAKE_SECONDS, call.cancel)
            try:
                frame, holds = own.close(greeting.read(next(call, b""), name))
                last.append(frame)
                if holds:
                    timer.cancel()
                    self._attach(stream, call.cancel)
                greeted.set()
                self._receive(stream, call, call.cancel)
                if own.refused is not None:
                    raise own.refused
            finally:
                timer.cancel()
                stream.close()
                call.cancel()

    def _receive(self, stream: Stream, frames: Iterator[bytes], cancel: Callable[[], Any]) -> None:
        """Hand on what arrives until the connection ends."""
        name = self.federation.sites[stream.peer].name
        try:
            stream.incoming(frames, Guarded(self.listener, lambda: self._accepts(stream)))
        except FrameError as error:
            self._door.shut_out(stream.peer)
            self._notices.add(name, f"ended the connection to {name}: {error}")
        except grpc.RpcError as error:
            code = error.code() if hasattr(error, "code") else None
            if code is grpc.StatusCode.PERMISSION_DENIED:
                self._notices.add(name, reason(error, name, ""))
        except ValueError:
            pass  # gRPC's own iterator, of a call that was cancelled
        finally:
            self._detach(stream)
            cancel()

    def _watch(self) -> None:
        """Notice who is silent, a new list of revoked sites, and whether this process was stopped for too long."""
        listed = self.identity.listed_at()
        while not self._over.wait(self.beat):
            if listed != (listed := self.identity.listed_at()):
                self.listener.say(f"{REVOKED} has changed, so all connections are opened anew.")
                for peer in list(self._streams):
                    self.drop(peer)
            now = time.monotonic()
            asleep, self._looked = now - self._looked > self.lost_after, now
            self._refusals.look()
            for peer, stream in list(self._streams.items()):
                if asleep or now - stream.heard > self.lost_after:
                    name = self.federation.sites[peer].name
                    self._notices.add(name, f"{name} has not been heard of for {now - stream.heard:.0f} seconds.")
                    self.drop(peer)

    def awake(self) -> bool:
        """Whether this process has run lately; if not, others may have given it up, and it must not decide."""
        return time.monotonic() - self._looked <= self.lost_after

    def _missing(self) -> list[str]:
        """The neighbours that dial this site and are not connected."""
        those = [peer for peer in self.federation.neighbours(self.me) if not self.federation.dials(self.me, peer)]
        return [self.federation.sites[peer].name for peer in those if peer not in self._streams]

    def _stream(self, peer: int) -> Stream:
        return Stream(peer, self.beat, self.max_payload_bytes, self._budgets.get(peer))

    def _attach(self, stream: Stream, cancel: Callable[[], Any]) -> None:
        with self._lock:
            if (older := self._streams.get(stream.peer)) is not None:
                self._detach(older)
                self._notices.replaced(self.federation.sites[stream.peer].name)
            self._streams[stream.peer], self._cancels[stream.peer] = stream, cancel
            self._notices.clear(self.federation.sites[stream.peer].name)
            self.listener.connected(stream.peer)

    def _detach(self, stream: Stream) -> None:
        stream.close()
        with self._lock:
            if self._streams.get(stream.peer) is stream:
                del self._streams[stream.peer]
                self._cancels.pop(stream.peer, None)
                if not self._leaving:  # else it is this site that leaves
                    self.listener.disconnected(stream.peer, stream.left)

    def _accepts(self, stream: Stream) -> bool:
        """Whether messages of a connection count: while it is the neighbour's current one and this process runs."""
        if not self.awake():
            self.drop(stream.peer)
            return False
        return self._streams.get(stream.peer) is stream

    def _thread(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
