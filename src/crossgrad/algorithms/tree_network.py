"""The network of an algorithm whose averages travel along a spanning tree.

N: agents of this shard, D: parameters.
"""

from torch import Tensor

from crossgrad.algorithms.rounds_network import RoundsNetwork
from crossgrad.codecs.codec import Exact

PARTS = ("hat_up", "near_up", "hat_down", "near_down")  # of the state, for each kind that is compressed


class TreeNetwork(RoundsNetwork):
    """A network whose averages are the mean of all agents: subtrees' means go to the root, and the mean comes back.

    `copies` has, for each kind that is compressed, what an agent's parent has of its subtree's mean, the weighted sum
    of what it has of its children's, what its children have of the mean, and what it has of its parent's.
    """

    def mix_(self, x: Tensor, plus: Tensor | None = None, *, kind: str = "model", lazy: float = 0.0) -> Tensor:
        rounds, z, codec = self.net.tree_rounds(), x.clone(), self.gossip.codec
        for number, (network, senders, receivers, keeps_R1) in enumerate(rounds):
            if codec is None:
                _, arrived = network.pass_on(z[senders], Exact(), self.sizes, kind=kind)
            else:
                hat, near = self.copies[kind][:2] if 2 * number < len(rounds) else self.copies[kind][2:]
                q, q_near = network.pass_on(z[senders] - hat[senders], codec, self.sizes, kind=kind)
                hat[senders] += q
                near[receivers] += q_near
                z[senders] += hat[senders] - z[senders]  # senders go on with what they sent, so that all have the same
                arrived = near[receivers]
            z[receivers] = z[receivers] * keeps_R1.to(z) + arrived
        x.mul_(lazy).add_(z.mul_(1 - lazy)) if lazy else x.copy_(z)
        return x if plus is None else x.add_(plus)
