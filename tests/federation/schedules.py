"""Agents in one process over an unreliable network, driven by a seed: any order of delivery, cuts, kills and stalls.

The agents' "models" are numbers that depend on everything that counted, and on nothing else: two exchanges per step,
the second of what came of the first.
"""

import random
import threading
from collections import deque
from hashlib import blake2b

from crossgrad.federation.claims import TRUST
from crossgrad.federation.journal import Adopted, Began, Ended, Lost, Offered, Saved, Started
from crossgrad.federation.membership import Member
from crossgrad.federation.messages import Data, ModelFollows, RequestModel
from crossgrad.federation.turns import Abandoned, Board, Turn, turns_of

EXCHANGES = 2


def digest(*parts):
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


class Agent:
    """One process after the other, with one journal and one checkpoint."""

    def __init__(self, network, me, steps, version=1):
        self.network, self.me, self.steps, self.version = network, me, steps, version
        self.journal, self.checkpoint, self.deaths = [], None, 0
        self.later = None  # a later version of the federation that it knows of
        self.done = False
        self.start()

    @property
    def neighbours(self):
        return self.network.neighbours(self.version, self.me)

    def start(self):
        epoch = 1 + max((event.epoch for event in self.journal), default=-1)
        saved, self.model = self.checkpoint or (None, digest("first", self.me))
        step = saved[1] if saved else 0
        self.journal.append(Started(epoch, step, saved, self.version))
        self.wanting, self.given, self.in_numbers = set(), None, False
        self.member = Member(self.me, self.neighbours, step, epoch, self.network.limits)
        self.payload = {}  # what arrived, by neighbour, step and exchange
        self.alive, self.impatient, self.stalled, self.gathers = True, False, 0, True
        self.loop = self.run()

    def run(self):
        member, self.gathers = self.member, True
        member.begin(gathering=True)
        while len(member.active()) < len(self.neighbours) or member.held:
            yield
            if self.changes():
                return
            if self.impatient:
                member.give_up()
                self.impatient = False
                break
            if any(member.edges[peer].first for peer in member.active()):
                break
            member.begin(gathering=True)
        if self.checkpoint is None:
            yield from self.adopt()
        self.gathers = False
        while member.step < self.steps:
            if self.network.random.random() < 0.1:
                self.save()
            again = True
            while again:
                member.begin()
                self.offer()
                while member.held:
                    yield from self.patience()
                again = member.moves
            partners = member.partners()
            degree = len(partners)
            counted = yield from self.exchange(0, partners, degree, None)
            said = {peer: member.counted(peer, 0) for peer in counted}
            began = tuple((peer, said[peer].epoch, said[peer].degree) for peer in counted)
            self.journal.append(Began(member.epoch, member.step, degree, began))
            self.in_numbers = True
            model = digest(self.model, member.step, degree, began)
            for exchange in range(1, EXCHANGES + 1):
                before, counted = counted, (yield from self.exchange(exchange, counted, degree, model))
                if lost := tuple(peer for peer in before if peer not in counted):
                    self.journal.append(Lost(member.epoch, member.step, exchange, lost))
                model = digest(model, [(p, self.payload[p, member.step, exchange]) for p in counted])
            self.model = model
            member.finish()
            self.in_numbers = False
            yield
            if member.step < self.steps and self.network.pauses and self.network.pauses > self.network.random.random():
                member.step_aside()
                for _ in range(self.network.random.randint(1, 60)):
                    yield
            if member.step < self.steps and self.later:
                self.save()
                self.changes()
                return
        self.journal.append(Ended(member.epoch, member.step, self.model))
        self.done = True
        self.network.close(self.me)

    def save(self):
        self.journal.append(Saved(self.member.epoch, self.member.step))
        self.checkpoint = (self.member.epoch, self.member.step), self.model

    def changes(self):
        """Leave, tell the neighbours, and begin again with the later version."""
        if self.later is None:
            return False
        self.network.hand_over(self.me, self.later)
        self.version, self.later = self.later, None
        self.start()
        return True

    def adopt(self):
        """Where others are at work, begin with a model of one of them."""
        for peer in [peer for peer in self.member.active() if self.member.edges[peer].first]:
            if self.given is None:
                self.network.send(self.me, peer, RequestModel(), None)
            while self.given is None and peer in self.member.active() and not self.impatient:
                yield
            self.impatient = False
        if self.given is not None:
            (peer, state), self.model = self.given[:2], self.given[2]
            self.journal.append(Adopted(self.member.epoch, self.member.step, peer, state.epoch, state.step))

    def offer(self):
        """Between two steps, or before the numbers of one: send the model to those who have none."""
        if self.wanting and not self.in_numbers:
            self.journal.append(Offered(self.member.epoch, self.member.step))
            for peer in self.wanting:
                self.network.send(self.me, peer, ModelFollows(0, self.member.epoch, self.member.step), self.model)
            self.wanting = set()

    def exchange(self, exchange, peers, degree, value):
        self.value = value
        for peer in peers:
            self.member.enter(peer, exchange, degree)
        self.network.collect(self)
        while any(self.member.waits(peer, exchange) for peer in peers):
            yield from self.patience()
        return [peer for peer in peers if self.member.counted(peer, exchange)]

    def patience(self):
        yield
        self.offer()
        if self.impatient:
            self.member.give_up()
            self.impatient = False


class Network:
    """Reliable and ordered while a connection lasts; when one is cut, what is under way may be lost."""

    def __init__(self, seed, versions, agents, steps, limits=lambda network: TRUST):
        """Edges by version, and how many agents the first one has; the others begin with the last."""
        self.random, self.turns, self.limits = random.Random(seed), 0, limits(self)
        self.pauses = 0.0  # how often an agent cannot write after a step
        self.versions = versions
        edges = self.edges = sorted({edge for each in versions.values() for edge in each})
        self.up = dict.fromkeys(edges, False)
        self.queues = {}
        self.pending = []  # ends that have yet to notice that their connection broke
        self.cuts = 0
        everybody = 1 + max(end for edge in edges for end in edge)
        self.agents = [Agent(self, a, steps, 1 if a < agents else max(versions)) for a in range(everybody)]

    def neighbours(self, version, me):
        return sorted({end for edge in self.versions[version] for end in edge if me in edge} - {me})

    def send(self, sender, receiver, message, value):
        if (sender, receiver) in self.queues:
            self.queues[sender, receiver].append((message, value))

    def hand_over(self, me, version):
        """An agent leaves for a later version; those that it is connected to hear of it."""
        for edge in self.edges:
            if me in edge and self.up[edge]:
                other = self.agents[sum(edge) - me]
                other.later = max(version, other.later or 0) if version > other.version else other.later
        self.close(me)
        self.pending = [(end, other) for end, other in self.pending if end != me]

    def collect(self, agent):
        """Put what an agent says on its way."""
        for peer, message in agent.member.outbox:
            value = agent.value if isinstance(message, Data) and message.exchange else None
            if (agent.me, peer) in self.queues:
                self.queues[agent.me, peer].append((message, value))
        agent.member.outbox.clear()

    def connect(self, edge):
        a, b = edge
        if self.up[edge] or any(set(edge) == {end, other} for end, other in self.pending):
            return
        if all(self.agents[end].alive and not self.agents[end].done for end in edge):
            first, second = sorted((self.agents[end] for end in edge), key=lambda agent: agent.version)
            if first.version < second.version:
                known = {end for each in self.versions[first.version] for end in each}
                first.later = second.version if second.me in known else first.later
                return
            if edge not in self.versions[first.version]:
                return
            self.up[edge] = True
            self.queues[a, b], self.queues[b, a] = deque(), deque()
            for end, other in ((a, b), (b, a)):
                self.agents[end].member.connected(other)

    def cut(self, edge):
        if not self.up[edge]:
            return
        self.up[edge] = False
        self.cuts += 1
        a, b = edge
        for end, other in ((a, b), (b, a)):
            queue = self.queues[other, end]
            for _ in range(self.random.randint(0, len(queue))):  # some of it still arrives, the rest is lost
                self.deliver(other, end)
            queue.clear()
        for end, other in ((a, b), (b, a)):
            self.queues.pop((end, other))
            self.pending.append((end, other))

    def notice(self, end, other):
        self.pending.remove((end, other))
        if self.agents[end].alive:
            self.agents[end].member.disconnected(other)
            self.agents[end].member.outbox = [m for m in self.agents[end].member.outbox if m[0] != other]

    def deliver(self, sender, receiver):
        message, value = self.queues[sender, receiver].popleft()
        agent = self.agents[receiver]
        if agent.alive and not agent.done:
            if isinstance(message, RequestModel):
                agent.wanting.add(sender)
                return
            if isinstance(message, ModelFollows):
                agent.given = sender, message, value
                return
            if isinstance(message, Data):
                agent.payload[sender, message.step, message.exchange] = value
            agent.member.received(sender, message)
            self.collect(agent)

    def close(self, me):
        for edge in self.edges:
            if me in edge and self.up[edge]:
                self.cuts -= 1  # a clean leave: everything that was sent arrives
                for other in edge:
                    if other != me:
                        while self.queues[me, other]:
                            self.deliver(me, other)
                self.cut(edge)

    def kill(self, agent):
        agent.alive, agent.deaths = False, agent.deaths + 1
        agent.loop.close()
        for edge in self.edges:
            if agent.me in edge:
                self.cut(edge)
        self.pending = [(end, other) for end, other in self.pending if end != agent.me]

    def run(self, *, cuts=0.0, kills=0.0, impatience=0.0, stalls=0.0, pauses=0.0, most_turns=400_000):
        """Until everybody has ended; faults cease after a while, so that it must."""
        draw, self.pauses = self.random, pauses
        for turn in range(most_turns):
            if all(agent.done for agent in self.agents):
                return
            faulty, self.turns = turn < 4000, turn
            first, last = self.agents[0], max(self.versions)
            if first.version < last and first.member.step >= 2:
                first.later = last  # its people have put the later file into its folder
            if faulty and draw.random() < cuts:
                self.cut(draw.choice(self.edges))
            if faulty and draw.random() < kills:
                agent = draw.choice(self.agents)
                if agent.alive and not agent.done:
                    self.kill(agent)
            if draw.random() < 0.05:
                self.connect(draw.choice(self.edges))
            if draw.random() < 0.02:
                dead = [agent for agent in self.agents if not agent.alive and not agent.done]
                noticed = [a for a in dead if all(a.me not in pair for pair in self.pending)]
                if noticed:
                    draw.choice(noticed).start()
            if self.pending and draw.random() < 0.2:
                self.notice(*draw.choice(self.pending))
            if busy := [pair for pair, queue in self.queues.items() if queue]:
                self.deliver(*draw.choice(busy))
            agent = draw.choice(self.agents)
            if not agent.alive or agent.done:
                continue
            if draw.random() < stalls:
                agent.stalled = draw.randint(1, 200)
            if agent.stalled:
                agent.stalled -= 1
                continue
            gathered = agent.gathers and not faulty and draw.random() < 0.01
            agent.impatient = agent.impatient or draw.random() < impatience or gathered
            next(agent.loop, None)
            self.collect(agent)
        states = [(a.me, a.alive, a.done, a.member.step, a.member.edges) for a in self.agents]
        raise AssertionError(f"no end after {most_turns} turns: {states}")


def replay(journals):
    """Everybody's last model, from the journals alone."""
    parts = turns_of(journals)
    board, ended = Board(parts), {}

    def repeat(agent):
        model, saved = None, {}
        with board.turn:
            for part in parts[agent]:
                if isinstance(part, Started):
                    model = saved[part.saved] if part.saved else digest("first", agent)
                elif isinstance(part, Saved):
                    saved[part.epoch, part.step] = model
                elif isinstance(part, Turn):
                    model = take(agent, part, model)
                elif isinstance(part, Offered):
                    board.offer((agent, part.epoch, part.step), model)
                elif isinstance(part, Adopted):
                    model = board.adopt(agent, part[2:])
                elif isinstance(part, Ended):
                    ended[agent] = model
            board.leave()

    def take(agent, turn, model):
        model = digest(model, turn.began.step, turn.began.degree, turn.began.partners)
        try:
            for exchange in range(1, EXCHANGES + 1):
                for peer in turn.partners:
                    board.send(turn, peer, exchange, model)
                near = [peer for peer, _, _ in turn.began.partners if turn.counts(peer, exchange)]
                model = digest(model, [(peer, board.receive(turn, peer, exchange)) for peer in near])
        except Abandoned:
            model = None
        board.finish(turn)
        return model

    threads = [threading.Thread(target=repeat, args=(agent,)) for agent in journals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


def one_sided(journals):
    """Exchanges that one end counted and the other did not, though it took that turn."""
    turns = {part.key: part for parts in turns_of(journals).values() for part in parts if isinstance(part, Turn)}
    odd = []
    for (agent, epoch, step), turn in turns.items():
        for peer, key in turn.partners.items():
            other = turns.get(key)
            if other is None or not other.complete:  # it was killed before it could count
                continue
            back = other.partners.get(agent) == (agent, epoch, step)
            for exchange in range(EXCHANGES + 1):
                if turn.counts(peer, exchange) and not (back and other.counts(agent, exchange)):
                    odd.append((agent, peer, epoch, step, exchange))
                    break
    return odd
