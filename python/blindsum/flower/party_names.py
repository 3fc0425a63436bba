"""Names of parties by Flower's nodes, as far as nodes have said them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from blindsum.flower.texts import logger


class PartyNames(Mapping[int, str]):
    """Which party a node is, by what it says itself: nobody proves it to the ServerApp.

    A name counts that one node alone says. Where two nodes of one round say the same one, neither of them has
    it: one of them lies, and who it is cannot be seen here. Nobody has such a name any more.

    Flower gives a SuperNode that was started again a new id. So a name moves to a node that says its first
    one, if the node that had it is not in the round. A node that has said another name is no new id: where it
    takes a name that is another's, nobody has that any more, in the round or not.
    """

    def __init__(self) -> None:
        self._names = dict[int, str]()
        self._disputed = set[str]()
        self._heard = set[int]()

    def __getitem__(self, node: int) -> str:
        return self._names[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def heard(self, said: Mapping[int, str], asked: Collection[int]) -> None:
        """Hear what the nodes of a round say that they are; the log warns of names that several say.

        Parameters
        ----------
        said
            Names by nodes, without control characters: only of parties that are in the sum.
        asked
            The nodes of the round, also those that say nothing.
        """
        self._names |= said
        claims = dict[str, list[int]]()
        for node, party in self._names.items():
            claims.setdefault(party, []).append(node)
        for party, nodes in claims.items():
            if len(nodes) == 1:
                continue
            new = [node for node in nodes if said.get(node) == party and node not in self._heard]
            old = [node for node in nodes if node not in new]
            if len(new) == 1 and not set(old) & set(asked):
                logger.info("node %d is the party %r, which was a node that is gone", new[0], party)
                for node in old:
                    del self._names[node]
                continue
            self._disputed.add(party)
            logger.warning(
                "nodes %s say that they are the party %r, which can be true of one: the run takes "
                "neither's word, and knows none of them by name; see whose certificate has the name",
                " and ".join(str(node) for node in sorted(nodes)),
                party,
            )
        self._heard |= said.keys()
        self._names = {node: party for node, party in self._names.items() if party not in self._disputed}
